// Identity of a process. Pids are reused, so the identity is the pid, the start time and the pid namespace. Internal to
// the library. The functions are thread-safe. They return 0, "" or nothing for a value that they cannot read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tessera::probe::detail {

/// Identifies a process, also after it has ended.
struct ProcessIdentity {
  std::uint64_t pid = 0;
  std::uint64_t start = 0;          // clock ticks since boot, field 22 of /proc/PID/stat
  std::uint64_t pid_namespace = 0;  // inode of /proc/self/ns/pid; 0: unknown
  bool operator==(const ProcessIdentity&) const = default;
};

/// Returns the identity of the calling process.
ProcessIdentity this_process();
/// Returns the start time of a process, or nothing if it does not exist or is a zombie (which has no memory left).
std::optional<std::uint64_t> process_start(std::uint64_t pid);

/// Returns the name of this machine.
std::string host_name();
/// Returns the id of the last boot of this machine, which distinguishes machines and boots.
std::string boot_id();

}  // namespace tessera::probe::detail
