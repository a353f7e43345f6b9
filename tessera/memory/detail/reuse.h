// Reuse of free blocks: which uses of a block are over or ordered before new work, and which block a request takes.
// Clocks decide on the order. The driver is asked only for the progress of streams.
#pragma once

#include <cstddef>

#include "tessera/base/probe/recorder.h"
#include "tessera/device/stream.h"
#include "tessera/memory/detail/heap.h"

namespace tessera::memory {

struct AllocatorState;

namespace detail {

struct AllocationRequest;

/// The reuse of blocks of one allocator. Methods that take a block return null if none is usable.
class Reuse {
 public:
  /// Works on the heaps of `allocator`.
  explicit Reuse(AllocatorState& allocator) : allocator_(allocator) {}

  /// Takes a ready block of the own heap of the stream.
  Block* take_ready(const AllocationRequest& request, Heap& own);
  /// Takes a block of any heap of the pool whose uses are ordered before the next work of the stream.
  Block* take_covered(const AllocationRequest& request, Heap& own);
  /// Takes pending memory of the own heap, after waits on the device if `may_wait`.
  Block* take_by_wait(const AllocationRequest& request, Heap& own, bool may_wait);
  /// Returns true if all uses of a free block are ordered before the next work of `stream`.
  [[nodiscard]] bool is_over(const Heap& heap, const Block& block, const device::Stream& stream) const;
  /// Returns true if all uses of a free block have completed.
  [[nodiscard]] bool is_completed(const Heap& heap, const Block& block) const;
  /// Makes pending blocks whose uses have completed ready. Returns their bytes.
  std::size_t promote_completed(Heap& heap);
  /// Makes a pending block available to its taker: from now on, the tick of the heap covers it. The heap lock is held.
  void settle(Heap& heap, Block& block, probe::Moment moment);
  /// Queries the driver for the progress of the streams that free blocks of the heap wait for. No heap lock is held.
  void poll_users(Heap& heap);

 private:
  AllocatorState& allocator_;
};

}  // namespace detail
}  // namespace tessera::memory
