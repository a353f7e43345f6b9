// A place to put more memory under a heap: a hole of an expandable segment with the ready blocks on both its sides,
// taken out of all lists so that the driver can be called without the heap's lock.
#pragma once

#include <cstddef>
#include <functional>

#include "tessera/memory/detail/heap.h"

namespace tessera::memory::detail {

/// Made by reserve_place; given back by exactly one of settle_place and restore_place. The heap's lock is held for
/// each.
struct Place {
  Segment* segment = nullptr;
  Block* left = nullptr;   ///< ready block before the hole, taken; null: none
  Block* hole = nullptr;   ///< what is to be mapped, taken
  Block* right = nullptr;  ///< ready block after the hole, taken; null: none or not needed
};

/// Free memory that can go as it is, taken: a piece of an expandable segment, or the one block of a fixed one.
struct FreePiece {
  Heap* heap = nullptr;
  Segment* segment = nullptr;
  Block* block = nullptr;
  explicit operator bool() const { return block != nullptr; }
};

/// The place in `space` that needs the least new memory to hold `size`; no hole: there is none. Ready blocks become
/// part of it where `is_usable`; empty: all are.
Place reserve_place(Heap& heap, Space& space, std::size_t size, std::size_t granule,
                    const std::function<bool(const Block&)>& is_usable = {});
/// The hole is mapped: makes one taken block of `size` of it all; the rest is ready.
Block* settle_place(Heap& heap, const Place& place, std::size_t size);
/// It was not: everything as before, except that the first `mapped` bytes of the hole have memory now.
void restore_place(Heap& heap, const Place& place, std::size_t mapped);

/// A new segment whose addresses are all hole, or all one taken block.
Block* add_segment(Heap& heap, std::byte* base, std::size_t nbytes, bool is_expandable, bool is_large);
/// Takes the segment of a single taken block out of the heap.
void remove_segment(Heap& heap, Segment& segment);
/// A taken block with no memory behind it becomes a hole and merges with holes beside it.
void make_hole(Heap& heap, Block& block);

}  // namespace tessera::memory::detail
