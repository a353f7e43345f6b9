#include "tessera/train/detail/run_signals.h"

#include <atomic>
#include <csignal>
#include <mutex>

namespace tessera::train::detail {
namespace {

// Signals belong to the process, so this is global.
std::atomic<bool> stop_asked{false};
std::atomic<bool> profile_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void note_stop(int /*signal*/) { stop_asked.store(true, std::memory_order_relaxed); }
void note_profile(int /*signal*/) { profile_asked.store(true, std::memory_order_relaxed); }

struct Taken {
  int number;
  void (*note)(int);
  int flags;
  bool is_taken = false;
};

struct Desk {
  std::mutex mutex = {};
  int users = 0;
  Taken signals[4] = {{SIGTERM, note_stop, SA_RESTART},
                      {SIGHUP, note_stop, SA_RESTART},
                      {SIGINT, note_stop, static_cast<int>(SA_RESTART | SA_RESETHAND)},
                      {SIGUSR1, note_profile, SA_RESTART}};
};

Desk& desk() {
  static Desk only;
  return only;
}

void take_signals(Desk& all) {
  stop_asked.store(false);
  profile_asked.store(false);
  for (Taken& each : all.signals) {
    struct sigaction before = {};
    ::sigaction(each.number, nullptr, &before);
    each.is_taken = before.sa_handler == SIG_DFL || before.sa_handler == each.note;
    if (!each.is_taken) continue;
    struct sigaction ours = {};
    ours.sa_handler = each.note;
    ours.sa_flags = each.flags;
    ::sigaction(each.number, &ours, nullptr);
  }
}

}  // namespace

RunSignals::RunSignals() {
  Desk& all = desk();
  {
    const std::lock_guard lock(all.mutex);
    if (all.users++ == 0) take_signals(all);
  }
  sigset_t asked;
  ::sigemptyset(&asked);
  ::sigaddset(&asked, SIGUSR1);
  ::pthread_sigmask(SIG_UNBLOCK, &asked, &mask_before_);
}

RunSignals::~RunSignals() {
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  Desk& all = desk();
  const std::lock_guard lock(all.mutex);
  if (--all.users > 0) return;
  for (const Taken& each : all.signals) {
    // Remaining threads of the run may not block signals that this thread blocked.
    const bool was_blocked = ::sigismember(&mask_before_, each.number) == 1;
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    if (each.is_taken && !was_blocked) ::sigaction(each.number, &standard, nullptr);
  }
}

bool RunSignals::is_stop_asked() { return stop_asked.load(std::memory_order_relaxed); }

void RunSignals::check_not_asked_to_end() {
  if (is_stop_asked()) throw AskedToEnd();
}

bool RunSignals::take_profile_asked() { return profile_asked.exchange(false, std::memory_order_relaxed); }

}  // namespace tessera::train::detail
