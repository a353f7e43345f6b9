// Arguments of the kernels in rope_rows.cu, for the host and the device.
#pragma once

#include "tessera/base/dtype.h"
#include "tessera/ops/cuda/walk.h"

namespace tessera::ops::cuda {

/// Maximum number of pairs that one launch rotates, and of levels of a map of positions.
inline constexpr int kRopePairs = 192;
inline constexpr int kMaxPositionLevels = 8;
/// Threads of a block: few, so that each can have eight vectors in registers.
inline constexpr int kRopeThreads = 128;

/// Vectors of 16 bytes of a tile, which a warp rotates together, and tiles of a warp that are copied to shared memory
/// ahead of the current one.
inline constexpr int kRopeTile = 64;
inline constexpr int kRopeTilesAhead = 3;

/// A rotation of the pairs [first_pair, first_pair + kRopePairs) of all vectors. An item is N pairs, or 2 N elements
/// after the pairs, which are copied.
struct RopeCall {
  const std::byte* x = nullptr;
  std::byte* out = nullptr;
  DType dtype = DType::kF32;
  bool is_interleaved = false;
  bool is_inverse = false;
  bool has_map = false;
  std::int32_t first_pair = 0;
  std::int32_t pair_items = 0;
  std::int64_t items = 0;  // items of pairs, then items that are copied
  std::int64_t pairs = 0;  // of a vector
  std::int64_t length = 0;
  std::int64_t x_step = 1, out_step = 1;  // along a vector
  Walk places;                            // vectors with angles of their own: result, x, position
  // Vectors that share angles: groups of vectors with one stride. Offsets of the result and of x.
  Walk groups;
  std::int64_t group = 1;
  std::int64_t group_steps[2] = {};
  const void* positions = nullptr;  // null: the offset in `places` is the local position
  DType positions_dtype = DType::kI64;
  std::int32_t nlevels = 0;
  std::int64_t offset = 0;                 // added to positions that are not given
  std::int64_t map_offset = 0, block = 0;  // of the map, as layout::IndexMap
  std::int64_t counts[kMaxPositionLevels] = {};
  std::int64_t strides[kMaxPositionLevels] = {};
  double frequencies[kRopePairs] = {};  // radians per position
};
static_assert(sizeof(RopeCall) <= 4096, "arguments of a launch");

}  // namespace tessera::ops::cuda
