// Whether the tile instructions of AMX work in this process. A processor may announce them where they raise SIGILL, and
// the kernel grants their register state only on request. The instructions are therefore tried once.
//
//   if (amx_state() == AmxState::kWorks) ...
//
// The trial runs in a child that shares the memory of this process and lets the calling thread wait (clone with
// CLONE_VM and CLONE_VFORK): its cost does not depend on the size of the process, and it runs no fork handlers. The
// child sends no SIGCHLD, waitpid(-1) does not return it, and signal handlers of this process stay as they are.
//
// Invariant: this process requests the register state only after the trial has succeeded. The request makes signal
// frames larger for the life of the process, and the kernel then rejects small alternative signal stacks.
#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera {

/// Answers to the question whether AMX can be used.
enum class AmxState : std::uint8_t {
  kNotAnnounced,      ///< CPUID reports no tiles, or none of bf16
  kKernelRefuses,     ///< the kernel does not grant the register state
  kInstructionFails,  ///< tile instructions raise a signal or give wrong values
  kWorks              ///< tile instructions work, and this process may use them
};

/// Returns the state of AMX on this machine. The first call in a process tries the instructions, in less than 1 ms.
/// Thread-safe.
TESSERA_API AmxState amx_state();
/// Returns the state in words: "announced, but its instructions fail".
TESSERA_API std::string_view to_text(AmxState state);

namespace detail {
/// The steps of the trial; tests replace them. Functions must use neither the heap, nor locks, nor errno.
struct AmxTrial {
  bool (*is_announced)();  ///< reads CPUID
  bool (*request)();       ///< requests the register state for the calling process
  bool (*multiply)();      ///< multiplies tiles; returns false if the values are wrong
};
/// Runs the trial: multiply() in a child, request() in the child and then in this process.
TESSERA_API AmxState try_amx(const AmxTrial& trial);
}  // namespace detail

}  // namespace tessera
