// Arguments of the kernels that add items with equal indices (sort_places.cu, sum_items.cu), shared by host and device.
//
// The index has `count` places. Each place has a key: the row of the result, or the place in the result, that its items
// are added to. Places that are not added have the key `nkeys`. Equal keys are added in the order of the places.
#pragma once

#include "tessera/ops/cuda/index_maps.h"
#include "tessera/ops/cuda/walk.h"
#include "tessera/ops/index/cuda/rejections.h"

namespace tessera::ops::cuda {

/// Most places that one block sorts.
inline constexpr std::int64_t kSmallSort = 2048;
/// Places that a block of a radix pass sorts, and digits of a pass.
inline constexpr std::int64_t kSortTile = 4096;
inline constexpr int kDigitBits = 8;
inline constexpr int kDigits = 1 << kDigitBits;
/// Longest line of an index whose places find each other without a sort.
inline constexpr std::int64_t kMaxSummedLine = 64;
/// Elements of a vector of a sum, slices of a sum whose loads are under way at a time, and sums that a thread begins
/// together.
inline constexpr int kSumVector = 8;
inline constexpr int kSlicesAhead = 8;
inline constexpr int kSumsAhead = 4;

/// Keys of all places.
struct PlaceKeys {
  std::uint32_t* to = nullptr;
  CheckedIndex index;
  DeviceIndexMap map;         // rows that the result holds
  std::int64_t key_step = 1;  // of adjacent indices
  std::uint32_t nkeys = 0;
  Walk places;  // index, source, key without the index
};

/// One pass of a sort by `kDigitBits` bits of the keys.
struct RadixPass {
  const std::uint32_t* keys = nullptr;
  const std::uint32_t* places = nullptr;  // null: in order
  std::uint32_t* to_keys = nullptr;
  std::uint32_t* to_places = nullptr;
  std::uint32_t* counts = nullptr;  // [kDigits][blocks]: before each block, after the scan
  std::uint32_t* totals = nullptr;  // [kDigits]
  std::uint32_t count = 0;
  std::uint32_t blocks = 0;
  std::int32_t shift = 0;
};

/// Sums of items.
struct ItemSums {
  void* to = nullptr;
  const void* x = nullptr;  // null: sums start at zero
  const void* source = nullptr;
  DType dtype = DType::kF32;
  const std::uint32_t* keys = nullptr;    // sorted
  const std::uint32_t* places = nullptr;  // in the order of the keys
  std::uint32_t* starts = nullptr;        // first place of each key, nkeys + 1
  std::uint32_t count = 0;
  std::uint32_t nkeys = 0;
  Walk at_places;  // index, source, key without the index
  Walk outs;       // rows: to, x, source, key, per vector; heads: to, per key
};

/// Sums of short lines.
struct LineSums {
  void* to = nullptr;
  const void* source = nullptr;
  DType dtype = DType::kF32;
  CheckedIndex index;
  std::int64_t step = 0;    // stride of `to` along the line
  std::int64_t length = 1;  // of a line, the innermost dimension of the walk
  Walk places;              // index, source, to without the index
};

}  // namespace tessera::ops::cuda
