// What signals ask of a run: SIGTERM, SIGHUP, and SIGINT once, to end at the next step; SIGUSR1 for a profile. While a
// run goes on they are noted, and looked at between steps and batches (agreement.h), and in the phases before the first
// step. A second SIGINT ends the process. Signals that
// the program has a handler of its own for, or ignores, are left alone. Ranks that are threads of one process share
// them.
//
// SIGUSR1 would end a process that has no handler yet, or no more. A program that may be asked that early has it
// blocked from its start on (as `tessera train` does): what comes then is kept, and heard when the run begins; after
// the run it is noted and does nothing.
#pragma once

#include <csignal>
#include <exception>

namespace tessera::train::detail {

/// Thrown to leave a phase because the run was asked to end. It is not an Error: code that reports an Error as a fault
/// of what it read (a corrupt checkpoint) must not take a request for one.
class AskedToEnd final : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "asked to end"; }
};

/// Notes signals while there is one. Goes on the thread that made it; else thread-safe.
class RunSignals {
 public:
  RunSignals();
  ~RunSignals();
  RunSignals(const RunSignals&) = delete;
  RunSignals& operator=(const RunSignals&) = delete;

  /// Whether the process was asked to end since the first of those there are was made.
  [[nodiscard]] static bool is_stop_asked();
  /// Throws AskedToEnd if is_stop_asked(). For work of one rank alone, before the first step.
  static void check_not_asked_to_end();
  /// Whether a profile was asked for since this was last called, on whichever thread.
  [[nodiscard]] static bool take_profile_asked();

 private:
  sigset_t mask_before_ = {};  // of the thread that made it
};

}  // namespace tessera::train::detail
