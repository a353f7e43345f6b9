// The peak of live bytes over all heaps of an allocator, without a counter that all threads change.
//
// Each heap owns a lease: live bytes that the peak already includes. An allocation within the lease of its heap
// accesses no shared memory, and a free never does. The leases and the headroom add up to the peak:
//
//   sum of leases + headroom = peak        live bytes of a heap <= its lease
//
// A heap that needs a larger lease takes it from the headroom. If the headroom does not suffice, count() reduces all
// leases to the live bytes, and raises the peak if these exceed it. Heaps thus keep their leases of the peak, and a
// program whose streams repeat their steps reaches a steady state.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "tessera/memory/detail/heap.h"

namespace tessera::memory::detail {

/// The peak of one allocator. Thread-safe. The peak is never too low, and too high by at most excess().
/// Locks: the mutex of this class is taken after the allocator's slow lock and before the locks of heaps.
class LivePeak {
 public:
  /// Counts a heap from now on. Heaps keep the order in which they were added.
  void add(Heap& heap);
  /// Removes a heap without live memory.
  void remove(Heap& heap) noexcept;

  /// Returns true if `nbytes` more may become live in `heap`, whose lock is held. If not, call count() without the lock
  /// and try again.
  [[nodiscard]] bool covers(Heap& heap, std::size_t nbytes) {
    return heap.sums.live + nbytes <= heap.lease || extend(heap, nbytes);
  }
  /// Counts the live bytes of all heaps, and gives `heap` a lease for `nbytes` more. No heap lock is held.
  void count(Heap& heap, std::size_t nbytes);

  /// Returns the lock of this class. A thread that locks several heaps must hold it: count() and reset() lock the heaps
  /// in the order in which they were added, and other code in the order of their pools.
  [[nodiscard]] std::unique_lock<std::mutex> gate() { return std::unique_lock(mutex_); }

  /// Resets the peak, and those of the heaps, to the live bytes.
  void reset();
  /// Returns the peak since the start or the last reset().
  [[nodiscard]] std::uint64_t peak() const;

  /// Returns the number of changes of the shared headroom, and of counts. It stays constant while streams repeat their
  /// steps.
  [[nodiscard]] std::uint64_t shared_changes() const { return shared_changes_.load(std::memory_order_relaxed); }

  /// Returns the maximum error of a peak of `live` bytes in `heaps` heaps: 1/64 and 32 KiB per heap.
  static std::size_t excess(std::size_t live, std::size_t heaps) { return live / 64 + heaps * (std::size_t{32} << 10); }

 private:
  bool extend(Heap& heap, std::size_t nbytes);
  std::size_t cut_leases();

  // Changed when a lease grows; separate from data that every allocation reads.
  alignas(kCacheLine) std::atomic<std::size_t> headroom_{0};
  std::atomic<std::uint64_t> shared_changes_{0};
  mutable std::mutex mutex_;  // guards the following members
  std::size_t peak_ = 0;
  std::vector<Heap*> heaps_;
};

}  // namespace tessera::memory::detail
