// Whether the process that wrote a record file still runs, as far as that can be seen from here: /proc shows the
// processes of this machine and of this pid namespace, and a pid means a process only together with its start.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::record::detail {

/// Which process.
struct ProcessName {
  std::string boot_id = {};         ///< of its machine; empty: this one
  std::uint64_t pid_namespace = 0;  ///< that its pid is of; 0: not known
  std::uint64_t pid = 0;            ///< its pid
  std::uint64_t start = 0;          ///< clock ticks since boot
};

/// How it stands.
enum class ProcessState : std::uint8_t {
  kRunning,  ///< it runs, or sleeps
  kStopped,  ///< a signal or a debugger has stopped it
  kGone,     ///< there is no such process any more, or only its corpse
  kUnseen,   ///< on another machine, in another container, or of another boot
};

/// Looks it up.
ProcessState state_of(const ProcessName& process);

}  // namespace tessera::record::detail
