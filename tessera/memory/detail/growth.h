// A position for more memory of a heap: a hole of an expandable segment with the ready blocks on both sides, removed
// from all lists so that the driver can be called without the heap lock.
#pragma once

#include <cstddef>
#include <functional>

#include "tessera/memory/detail/heap.h"

namespace tessera::memory::detail {

/// Created by reserve_place; released by exactly one of settle_place and restore_place. The heap lock is held for each.
struct ReservedPlace {
  Segment* segment = nullptr;
  Block* left = nullptr;   ///< taken ready block before the hole; null if none
  Block* hole = nullptr;   ///< taken range to map
  Block* right = nullptr;  ///< taken ready block after the hole; null if none or not needed
};

/// Taken free memory that can be released as a unit: a chunk of an expandable segment, or the block of a fixed one.
struct FreePiece {
  Heap* heap = nullptr;
  Segment* segment = nullptr;
  Block* block = nullptr;
  explicit operator bool() const { return block != nullptr; }
};

/// Returns the position in `space` that needs the least new memory for `size`; without a hole if none exists. Ready
/// blocks are included if `is_usable`; an empty function includes all.
ReservedPlace reserve_place(Heap& heap, Space& space, std::size_t size, std::size_t granule,
                            const std::function<bool(const Block&)>& is_usable = {});
/// Called when the hole is mapped: makes one taken block of `size`; the rest is ready.
Block* settle_place(Heap& heap, const ReservedPlace& place, std::size_t size);
/// Called when mapping failed: restores everything, except that the first `mapped` bytes of the hole have memory now.
void restore_place(Heap& heap, const ReservedPlace& place, std::size_t mapped);

/// Adds a segment that is one hole, or one taken block.
Block* add_segment(Heap& heap, std::byte* base, std::size_t nbytes, bool is_expandable, bool is_large);
/// Removes the segment of a single taken block from the heap.
void remove_segment(Heap& heap, Segment& segment);
/// Turns a taken block without memory into a hole and merges it with adjacent holes.
void make_hole(Heap& heap, Block& block);

}  // namespace tessera::memory::detail
