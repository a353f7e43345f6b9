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
  /// Announces a sleeper; follow it by sleep() or leave().
  std::uint32_t listen() {
    sleepers_.fetch_add(1);
    return epoch_.load();
  }
  /// Takes the announcement back.
  void leave() { sleepers_.fetch_sub(1); }
  /// Sleeps until the bell rings after listen() returned `seen`, at most `longest`; may wake early.
  void sleep(std::uint32_t seen, std::chrono::nanoseconds longest);
  /// Wakes all who sleep.
  void ring() {
    if (sleepers_.load() != 0) ring_aloud();
  }

 private:
  void ring_aloud();

  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<std::uint32_t> sleepers_{0};
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
