#include "tessera/comm/launch/detail/signal_desk.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::comm::detail {
namespace {

bool is_ignored(int number) {
  struct sigaction now = {};
  return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

std::string signal_name(int number) {
  constexpr std::array<std::pair<int, const char*>, 6> kNames = {{{SIGHUP, "SIGHUP"},
                                                                  {SIGINT, "SIGINT"},
                                                                  {SIGKILL, "SIGKILL"},
                                                                  {SIGTERM, "SIGTERM"},
                                                                  {SIGUSR1, "SIGUSR1"},
                                                                  {SIGUSR2, "SIGUSR2"}}};
  for (const auto& [each, name] : kNames) {
    if (each == number) return name;
  }
  return "signal " + std::to_string(number);
}

std::string to_string(const ReceivedSignal& signal) {
  const std::string name = signal_name(signal.number);
  if (signal.sender == 0) return "the launcher received " + name + " from the kernel (a key, or a closed terminal)";
  return tessera::detail::concat("the launcher received ", name, " from process ", signal.sender, " of user ",
                                 signal.uid);
}

SignalDesk::SignalDesk() {
  sigset_t ours;
  ::sigemptyset(&ours);
  for (const int signal : kForwardedSignals) {
    if (!is_ignored(signal)) ::sigaddset(&ours, signal);
  }
  ignores_hangup_ = is_ignored(SIGHUP);
  for (const int signal : {SIGCHLD, SIGPIPE}) ::sigaddset(&ours, signal);
  ::pthread_sigmask(SIG_BLOCK, &ours, &before_);
  // If SIGCHLD is ignored, the kernel reports no ended child.
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &standard, &child_before_);
  desk_.reset(::signalfd(-1, &ours, SFD_NONBLOCK | SFD_CLOEXEC));
}

SignalDesk::~SignalDesk() {
  while (next()) {
  }
  ::sigaction(SIGCHLD, &child_before_, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<ReceivedSignal> SignalDesk::next() const {
  signalfd_siginfo info = {};
  if (::read(desk_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  const int number = static_cast<int>(info.ssi_signo);
  const bool is_sent = info.ssi_code <= 0;  // SI_USER, SI_QUEUE, SI_TKILL; positive codes come from the kernel
  return ReceivedSignal{.number = number,
                        .sender = is_sent ? static_cast<pid_t>(info.ssi_pid) : 0,
                        .uid = is_sent ? info.ssi_uid : 0,
                        .is_stop = number == SIGINT || number == SIGTERM || number == SIGHUP};
}

}  // namespace tessera::comm::detail
