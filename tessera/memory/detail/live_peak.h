// The most bytes that were live in all heaps of an allocator at one time, without a counter that all threads change.
//
// Each heap owns a lease: live bytes that the peak already includes. An allocation within the lease of its heap touches
// no shared memory, and a free never does. The leases and the headroom add up to the peak:
//
//   sum of leases + headroom = peak        live bytes of a heap <= its lease
//
// A heap that needs a larger lease takes it from the headroom. If the headroom does not suffice, count() cuts all
// leases to the bytes that are live, and raises the peak if these exceed it. Heaps thus keep what they had at the peak,
// and a program whose streams repeat their steps comes to rest.
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
  /// Ends it. No memory of the heap is live.
  void remove(Heap& heap) noexcept;

  /// Returns true if `nbytes` more may become live in `heap`, whose lock is held. If not, call count() without the lock
  /// and ask again.
  [[nodiscard]] bool covers(Heap& heap, std::size_t nbytes) {
    return heap.sums.live + nbytes <= heap.lease || extend(heap, nbytes);
  }
  /// Counts what is live in all heaps, and gives `heap` a lease for `nbytes` more. No lock of a heap is held.
  void count(Heap& heap, std::size_t nbytes);

  /// Returns the lock of this class. A thread that locks several heaps holds it meanwhile: count() and reset() lock the
  /// heaps in the order in which they were added, and other code in the order of their pools.
  [[nodiscard]] std::unique_lock<std::mutex> gate() { return std::unique_lock(mutex_); }

  /// Starts over: the peak, and those of the heaps, are what is live now.
  void reset();
  /// Returns the peak since the start or the last reset().
  [[nodiscard]] std::uint64_t peak() const;

  /// Returns how often heaps changed the shared headroom, or counted. It stays as it is while streams repeat their
  /// steps.
  [[nodiscard]] std::uint64_t shared_changes() const { return shared_changes_.load(std::memory_order_relaxed); }

  /// Returns by how much a peak of `live` bytes in `heaps` heaps may be too high: 1/64 and 32 KiB a heap.
  static std::size_t excess(std::size_t live, std::size_t heaps) { return live / 64 + heaps * (std::size_t{32} << 10); }

 private:
  bool extend(Heap& heap, std::size_t nbytes);
  std::size_t cut_leases();

  // Changed when a lease grows, away from what every allocation reads.
  alignas(kCacheLine) std::atomic<std::size_t> headroom_{0};
  std::atomic<std::uint64_t> shared_changes_{0};
  mutable std::mutex mutex_;  // guards what follows
  std::size_t peak_ = 0;
  std::vector<Heap*> heaps_;
};

}  // namespace tessera::memory::detail
