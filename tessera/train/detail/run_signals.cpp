#include "tessera/train/detail/run_signals.h"

#include <atomic>
#include <csignal>
#include <mutex>

namespace tessera::train::detail {
namespace {

// Signals are the process's, and so is this.
std::atomic<bool> stop_asked{false};
std::atomic<std::uint64_t> profile_count{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);

void note_stop(int /*signal*/) { stop_asked.store(true, std::memory_order_relaxed); }
void note_profile(int /*signal*/) { profile_count.fetch_add(1, std::memory_order_relaxed); }

struct Taken {
  int number;
  void (*note)(int);
  int flags;
  bool is_taken = false;
};

struct Desk {
  std::mutex mutex = {};
  int users = 0;
  Taken signals[3] = {{SIGTERM, note_stop, SA_RESTART},
                      {SIGINT, note_stop, static_cast<int>(SA_RESTART | SA_RESETHAND)},
                      {SIGUSR1, note_profile, SA_RESTART}};
};

Desk& desk() {
  static Desk only;
  return only;
}

}  // namespace

RunSignals::RunSignals() {
  Desk& all = desk();
  const std::lock_guard lock(all.mutex);
  if (all.users++ > 0) return;
  stop_asked.store(false);
  for (Taken& each : all.signals) {
    struct sigaction before = {};
    ::sigaction(each.number, nullptr, &before);
    each.is_taken = before.sa_handler == SIG_DFL;
    if (!each.is_taken) continue;
    struct sigaction ours = {};
    ours.sa_handler = each.note;
    ours.sa_flags = each.flags;
    ::sigaction(each.number, &ours, nullptr);
  }
}

RunSignals::~RunSignals() {
  Desk& all = desk();
  const std::lock_guard lock(all.mutex);
  if (--all.users > 0) return;
  for (const Taken& each : all.signals) {
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    if (each.is_taken) ::sigaction(each.number, &standard, nullptr);
  }
}

bool RunSignals::is_stop_asked() { return stop_asked.load(std::memory_order_relaxed); }

std::uint64_t RunSignals::profiles_asked() { return profile_count.load(std::memory_order_relaxed); }

}  // namespace tessera::train::detail
