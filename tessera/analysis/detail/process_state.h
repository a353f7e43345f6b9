// State of the process that wrote a record file, if visible: /proc shows the processes of this machine and pid
// namespace, and a pid identifies a process only together with its start time.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::analysis::detail {

/// Identity of a process.
struct ProcessName {
  std::string boot_id = {};         ///< Boot id of its machine; empty: this machine.
  std::uint64_t pid_namespace = 0;  ///< Namespace of the pid; 0 if unknown.
  std::uint64_t pid = 0;
  std::uint64_t start = 0;  ///< Start time in clock ticks since boot.
};

/// State of a process.
enum class ProcessState : std::uint8_t {
  kRunning,  ///< Running or sleeping.
  kStopped,  ///< Stopped by a signal or a debugger.
  kGone,     ///< Gone, or a zombie.
  kUnseen,   ///< On another machine, in another container, or of another boot.
};

/// Returns the current state of a process.
ProcessState state_of(const ProcessName& process);

}  // namespace tessera::analysis::detail
