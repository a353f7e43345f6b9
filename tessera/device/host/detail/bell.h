// Sleeping and waking. If no thread sleeps, waking costs one load.
//
// Contract: the condition is stored with seq_cst order (or by a read-modify-write) before ring(), and is checked with
// seq_cst loads between listen() and sleep(). Then either the sleeper sees the condition or the waker sees the sleeper.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tessera::device::host::detail {

/// Informs the core that this is a spin loop.
inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

/// An object that threads sleep on until it rings. Thread-safe.
class Bell {
 public:
  /// Announces a sleeper. Check the condition once more, then call sleep() or continue.
  std::uint32_t listen() {
    const std::uint32_t seen = epoch_.load();  // before the flag: a ring that takes the flag has not moved it yet
    has_sleepers_.store(true);
    return seen;
  }
  /// Sleeps until the bell rings after listen() returned `seen`, at most `longest`; may wake early.
  void sleep(std::uint32_t seen, std::chrono::nanoseconds longest);
  /// Wakes all sleepers. The first ring takes the flag: further rings before the woken threads run cost one load, not a
  /// system call each.
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
  /// Takes the lock; after some rounds yields the core.
  void lock() {
    if (taken_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      lock_slowly();
  }
  /// Releases the lock.
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  void lock_slowly();

  std::atomic<bool> taken_{false};
};

}  // namespace tessera::device::host::detail
