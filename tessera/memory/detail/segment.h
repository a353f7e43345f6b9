// Parts of a heap: segments of addresses, tiled by blocks, in a space for small blocks and one for large.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "tessera/memory/detail/bins.h"
#include "tessera/memory/detail/block.h"

namespace tessera::memory::detail {

/// A run of addresses that is partly (expandable) or completely mapped.
struct Segment {
  std::byte* base = nullptr;
  std::size_t nbytes = 0;  ///< reserved bytes
  std::size_t mapped = 0;
  bool is_expandable = false;
  bool is_large = false;  ///< selects the space
  Block* first = nullptr;
  std::map<std::byte*, std::size_t> pieces;  ///< mapped chunks, by address
  std::map<std::byte*, Block*> holes;        ///< unmapped runs, by address
};

/// Segments of one size class, and their free blocks.
struct Space {
  Bins ready;
  Bins pending;
  std::vector<std::unique_ptr<Segment>> segments;
};

/// Neighbors that together fit a request.
struct BlockRun {
  Block* first = nullptr;  ///< null if none
  Block* last = nullptr;
  std::size_t size = 0;
  int cost = 0;
};

/// Byte sums of a heap.
struct HeapSums {
  std::size_t mapped = 0;
  std::size_t live = 0;    ///< requested bytes
  std::size_t used = 0;    ///< of live blocks
  std::size_t cached = 0;  ///< of ready blocks; the rest is pending, or taken for a moment
  std::size_t live_blocks = 0;
};

}  // namespace tessera::memory::detail
