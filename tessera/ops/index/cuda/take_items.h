// Arguments of the kernels in take_items.cu, shared by host and device. Offsets and strides count items.
#pragma once

#include "tessera/ops/cuda/index_maps.h"
#include "tessera/ops/cuda/walk.h"
#include "tessera/ops/index/cuda/rejections.h"

namespace tessera::ops::cuda {

/// to[...] = from[..., index[...], ...]: the walk has the offsets of to, from (without the indexed dimension) and
/// index.
struct TakenItems {
  void* to = nullptr;
  const void* from = nullptr;
  CheckedIndex index;
  DeviceIndexMap map;     // slices that `from` holds; other slices are zeros
  std::int64_t step = 0;  // stride of `from` along the indexed dimension
  Walk walk;
};

/// to[..., index[...], ...] = from[...]: the walk has the offsets of to (without the indexed dimension), from, index
/// and the number of the item in `to`, also without the indexed dimension.
struct PutItems {
  void* to = nullptr;
  const void* from = nullptr;  // null: writes `value`
  CheckedIndex index;
  std::int64_t step = 0;             // stride of `to` along the indexed dimension
  std::int64_t length = 0;           // of a line of the index, the innermost dimension of the walk
  std::uint32_t* winners = nullptr;  // per item of `to`: number of the last item of the walk there, plus 1
  std::int64_t numel = 0;            // items of `winners`
  std::int64_t winner_step = 0;      // distance of winners along the indexed dimension
  alignas(16) std::uint8_t value[16] = {};
  Walk walk;
};

/// Longest line of an index in which an item finds later items at the same place without `winners`.
inline constexpr std::int64_t kMaxSearchedLine = 64;

/// to[..., c] = 1 for the class c of an index, otherwise 0: the walk has the offsets of to and index, and the local
/// class.
struct OneHot {
  std::int64_t* to = nullptr;
  CheckedIndex index;
  DeviceIndexMap map;
  Walk walk;
};

}  // namespace tessera::ops::cuda
