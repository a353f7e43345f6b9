// Reads the signals that the launcher handles from a descriptor. While a SignalDesk exists, the signals in
// kForwardedSignals, SIGCHLD and SIGPIPE are blocked on the calling thread and arrive through next(). Its destructor
// restores the signal mask and the disposition of SIGCHLD. Forwarded signals that the process ignores (nohup) are not
// blocked: the kernel queues a signal that is both blocked and ignored, and drops one that is only ignored.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>

#include "tessera/comm/store/descriptor.h"

namespace tessera::comm::detail {

/// Signals that the launcher forwards to its ranks.
inline constexpr int kForwardedSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

/// Returns "SIGTERM" for 15, and "signal 64" for a number without a name.
std::string signal_name(int number);

/// A signal that reached the launcher.
struct ReceivedSignal {
  int number = 0;        ///< signal number
  pid_t sender = 0;      ///< process that sent it; 0: the kernel, as for terminal keys
  uid_t uid = 0;         ///< user of the sender; 0 if the kernel sent it
  bool is_stop = false;  ///< true for SIGINT, SIGTERM and SIGHUP
};
/// Returns "the launcher received SIGTERM from process 41 of user 1000".
std::string to_string(const ReceivedSignal& signal);

/// Receives signals for the launcher. At most one per thread at a time.
class SignalDesk {
 public:
  SignalDesk();
  ~SignalDesk();
  SignalDesk(const SignalDesk&) = delete;
  SignalDesk& operator=(const SignalDesk&) = delete;

  /// Returns a descriptor that is readable if a signal is pending.
  [[nodiscard]] int fd() const { return desk_.get(); }
  /// Returns the signal mask of the thread before this object was created.
  [[nodiscard]] const sigset_t& mask_before() const { return before_; }
  /// Returns true if the process ignored SIGHUP when this object was created, as under nohup.
  [[nodiscard]] bool ignores_hangup() const { return ignores_hangup_; }
  /// Returns the next pending signal, or nullopt. Does not block.
  [[nodiscard]] std::optional<ReceivedSignal> next() const;

 private:
  Descriptor desk_;
  sigset_t before_ = {};
  bool ignores_hangup_ = false;
  struct sigaction child_before_ = {};
};

}  // namespace tessera::comm::detail
