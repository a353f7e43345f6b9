// What a heap is made of: segments of addresses, tiled by blocks, in a space for small blocks and one for large.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "tessera/memory/detail/bins.h"
#include "tessera/memory/detail/block.h"

namespace tessera::memory::detail {

/// A run of addresses with memory behind parts of it (expandable) or all of it.
struct Segment {
  std::byte* base = nullptr;
  std::size_t nbytes = 0;  ///< addresses
  std::size_t mapped = 0;  ///< bytes with memory
  bool is_expandable = false;
  bool is_large = false;  ///< which space it is in
  Block* first = nullptr;
  std::map<std::byte*, std::size_t> pieces;  ///< what was mapped at once, by address
  std::map<std::byte*, Block*> holes;        ///< runs without memory, by address
};

/// Segments of one size kind, and the free blocks in them.
struct Space {
  Bins ready;
  Bins pending;
  std::vector<std::unique_ptr<Segment>> segments;
};

/// Neighbours that together could hold a request.
struct Run {
  Block* first = nullptr;  ///< null: there is none
  Block* last = nullptr;
  std::size_t size = 0;
  int cost = 0;
};

/// Byte sums of a heap.
struct HeapSums {
  std::size_t mapped = 0;
  std::size_t live = 0;    ///< asked for
  std::size_t used = 0;    ///< of live blocks
  std::size_t cached = 0;  ///< of ready blocks; what is neither used nor cached is pending, or taken for a moment
  std::size_t live_blocks = 0;
};

}  // namespace tessera::memory::detail
