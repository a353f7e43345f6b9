// Signals to a run: SIGTERM, SIGHUP and the first SIGINT request its end at the next step, SIGUSR1 requests a profile.
// They are recorded during a run, and polled between steps and batches (agreement.h) and in the phases before the first
// step. A second SIGINT ends the process. Signals that the program handles or ignores are not changed. Ranks that are
// threads of one process share them.
//
// SIGUSR1 would end a process without a handler. A program that may receive it before or after the run blocks it from
// its start (as `tessera train` does): early signals are delivered when the run begins, and late ones have no effect.
#pragma once

#include <csignal>
#include <exception>

namespace tessera::train::detail {

/// Thrown to leave a phase because the run was requested to end. It is not an Error, because code that reports an Error
/// as a fault of its input (a corrupt checkpoint) must not catch a request.
class AskedToEnd final : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "stop requested"; }
};

/// Records signals during its lifetime. Destroyed on the thread that created it; otherwise thread-safe.
class RunSignals {
 public:
  RunSignals();
  ~RunSignals();
  RunSignals(const RunSignals&) = delete;
  RunSignals& operator=(const RunSignals&) = delete;

  /// Returns true if the process was requested to end since the first live object was created.
  [[nodiscard]] static bool is_stop_asked();
  /// Throws AskedToEnd if is_stop_asked(). For work of a single rank before the first step.
  static void check_not_asked_to_end();
  /// Returns true if a profile was requested since the last call on any thread.
  [[nodiscard]] static bool take_profile_asked();

 private:
  sigset_t mask_before_ = {};  // of the creating thread
};

}  // namespace tessera::train::detail
