// Arguments of the kernels in move_items.cu, shared by host and device. Offsets, strides and sizes count items.
#pragma once

#include <cstdint>

#include "tessera/ops/cuda/walk.h"

namespace tessera::ops::cuda {

/// Maximum dimensions of a segment, and segments per launch. The table fits into 4 KiB of kernel arguments.
inline constexpr int kMaxSegmentDims = 4;
inline constexpr int kMaxSegments = 20;
/// Items that a thread moves together.
inline constexpr int kItemsEach = 4;

/// A copy of fewer than 2^31 items between strided arrays, dimensions innermost first.
struct Segment {
  void* to;
  const void* from;          // null: writes the value of the table
  std::int64_t first_block;  // first block of the launch that works on the segment
  std::uint32_t numel;       // in items of `nbytes`
  std::int32_t nbytes;       // 1, 2, 4, 8 or 16
  std::int32_t ndim;         // at least 1
  std::int64_t first[2];     // to, from
  std::uint32_t sizes[kMaxSegmentDims];
  Divider dividers[kMaxSegmentDims];
  std::int64_t steps[kMaxSegmentDims][2];
};

/// Segments that one launch copies.
struct SegmentTable {
  std::int32_t count;
  alignas(16) std::uint8_t value[16];  // one item, repeated
  Segment segments[kMaxSegments];
};

/// A copy that transposes: `from` is contiguous along x, `to` along y.
struct TransposedMove {
  void* to;
  const void* from;
  std::int64_t nx, ny;
  std::int64_t to_x, from_y;  // strides along the other dimension
  std::int64_t tiles_x, tiles_y, tiles;
  bool has_vectors;  // both sides are accessed in vectors of 16 bytes
  Walk rest;         // the other dimensions: to, from
};

/// Side of a tile of a transposed copy, for items of `nbytes`. Rows of tiles that are accessed in vectors of 16 bytes
/// have at least 128 bytes.
constexpr std::int64_t transposed_side(std::int64_t nbytes, bool has_vectors) {
  return nbytes < 4 && has_vectors ? 128 : nbytes < 16 ? 64 : 32;
}

}  // namespace tessera::ops::cuda
