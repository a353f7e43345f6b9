// Sleeping and waking at the price of one load for the waker when nobody sleeps.
//
// Contract: the condition is stored with seq_cst order (or by a read-modify-write) before ring(), and is checked with
// seq_cst loads between listen() and sleep(). Then either the sleeper sees the condition or the waker sees the sleeper.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tessera::device::host::detail {

/// Tells the core that this is a spin loop.
inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

/// Something that threads sleep on until it rings. Thread-safe.
class Bell {
 public:
  /// Announces a sleeper; look at the condition once more, then sleep() or go on.
  std::uint32_t listen() {
    const std::uint32_t seen = epoch_.load();  // before the flag: a ring that takes the flag has yet to move it
    has_sleepers_.store(true);
    return seen;
  }
  /// Sleeps until the bell rings after listen() returned `seen`, at most `longest`; may wake early.
  void sleep(std::uint32_t seen, std::chrono::nanoseconds longest);
  /// Wakes all who sleep. The flag is taken by the first ring: those that follow before the woken have come to run cost
  /// one load, not a system call each.
  void ring() {
    if (has_sleepers_.load() && has_sleepers_.exchange(false)) ring_aloud();
  }

 private:
  void ring_aloud();

  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<bool> has_sleepers_{false};
};

/// A lock for a few instructions. Thread-safe.
class SpinLock {
 public:
  /// Takes it; after some rounds lets other threads have the core.
  void lock() {
    if (taken_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      lock_slowly();
  }
  /// Gives it back.
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  void lock_slowly();

  std::atomic<bool> taken_{false};
};

}  // namespace tessera::device::host::detail
