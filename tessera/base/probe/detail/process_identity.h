// Which process is which. A pid alone is not an identity: it is used again. With the process's start time and the pid
// namespace it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tessera::probe::detail {

struct ProcessIdentity {
  std::uint64_t pid = 0;
  std::uint64_t start = 0;          // clock ticks since boot, field 22 of /proc/PID/stat
  std::uint64_t pid_namespace = 0;  // inode of /proc/self/ns/pid; 0: unknown
  bool operator==(const ProcessIdentity&) const = default;
};

/// Of the calling process.
ProcessIdentity this_process();
/// Start time of a process; nothing if there is none, or only its corpse is left (a zombie has no memory any more).
std::optional<std::uint64_t> process_start(std::uint64_t pid);

std::string host_name();
std::string boot_id();

}  // namespace tessera::probe::detail
