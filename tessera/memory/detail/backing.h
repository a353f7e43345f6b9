// The memory of heaps: adds it by allocating, mapping or moving, and releases it to the upstream. All calls hold the
// slow lock. Memory that is set aside is in no list, so that it is not used again while a request waits for its
// streams.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "tessera/memory/detail/growth.h"

namespace tessera::memory {

struct AllocatorState;

namespace detail {

struct AllocationRequest;

/// The memory of one allocator.
class Backing {
 public:
  /// Works on the heaps of `allocator`.
  explicit Backing(AllocatorState& allocator) : allocator_(allocator) {}

  /// Returns a block of new memory of the heap. Throws OutOfMemory if the limit or the upstream does not permit it.
  Block* grow(const AllocationRequest& request, Heap& heap);
  /// Releases cached memory of a pool whose uses have completed, by default all of it. Returns the bytes released.
  std::size_t trim(PoolState& pool, const std::function<bool(const Block&)>& wanted = {});
  /// Releases cached memory of all pools. Returns the bytes released.
  std::size_t trim_all();
  /// Releases all memory of a heap that is destroyed.
  void free_segments(Heap& heap) noexcept;

  /// Sets releasable cached memory aside, whether its uses have completed or not. Returns true if there was any.
  bool set_aside(PoolState& pool);
  /// Releases memory that was set aside and whose uses have completed. Returns the bytes released.
  std::size_t release_aside();
  /// Returns memory that was set aside to the cache.
  void cache_aside() noexcept;
  /// Returns true if memory is set aside.
  [[nodiscard]] bool has_aside() const { return !aside_.empty(); }

  int waiting = 0;  ///< requests that wait for streams; the last one empties the memory set aside

 private:
  void collect_by_age();

  AllocatorState& allocator_;
  std::vector<FreePiece> aside_;  // any thread may release it
};

}  // namespace detail
}  // namespace tessera::memory
