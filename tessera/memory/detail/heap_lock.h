// The lock of a heap. It is held for tens of nanoseconds and never during a driver call, so waiters spin; with fewer
// cores than threads they yield. Releasing is a plain store, which is why it is not std::mutex.
#pragma once

#include <sched.h>

#include <atomic>

namespace tessera::memory::detail {

/// Meets BasicLockable.
class HeapLock {
 public:
  void lock() {
    while (taken_.exchange(true, std::memory_order_acquire)) [[unlikely]] wait();
  }
  bool try_lock() { return !taken_.exchange(true, std::memory_order_acquire); }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  [[gnu::noinline]] void wait() {
    for (int turn = 0; taken_.load(std::memory_order_relaxed); ++turn) {
      if (turn < 64) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
      } else {
        sched_yield();
      }
    }
  }
  std::atomic<bool> taken_{false};
};

}  // namespace tessera::memory::detail
