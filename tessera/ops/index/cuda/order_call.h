// Arguments of the kernels of sort and topk, in order_lines.cu, shared by host and device code.
#pragma once

#include <cstdint>

#include "tessera/base/dtype.h"
#include "tessera/ops/cuda/walk.h"

namespace tessera::ops::cuda {

/// Maximum elements that a block orders in its own memory: of a short line, or the result of topk.
inline constexpr std::int64_t kBlockOrder = 2048;
/// Elements that a block distributes by a digit, for keys of 4 and of 8 bytes.
constexpr std::int64_t radix_tile(std::int64_t key_nbytes) { return key_nbytes == 4 ? 4096 : 2048; }
/// Number of values of a digit.
inline constexpr int kDigits = 256;

/// Lines of elements to order, and the results. Strides are in elements.
struct OrderLines {
  const void* from;
  void* values;
  std::int64_t* indices;
  std::int64_t value_step, index_step, from_step;
  std::int64_t lines;
  std::int64_t length;  // elements of a line
  std::int64_t count;   // first elements of the order that are results
  DType dtype;
  bool is_descending;
  std::int32_t key_bits;
  Walk kept;  // values, indices, input
};

/// A pass over the lines [first, first + lines) by one digit of the keys, from the least significant one on.
struct RadixPass {
  std::int64_t first;
  std::int32_t tiles;  // of a line
  std::int32_t shift;  // of the digit
  bool is_first;       // keys come from the elements
  bool is_last;        // results are written
  const void* keys_in;
  void* keys_out;
  const std::uint32_t* places_in;
  std::uint32_t* places_out;
  std::uint32_t* counts;  // [line][digit][tile]; then the sums of the tiles before
  std::uint32_t* totals;  // [line][digit]
};

/// A selection of the first `count` elements of each chunk of each line.
struct Selection {
  std::int64_t length;  // of a line of candidates, or of elements
  std::int64_t chunk;   // elements per block
  std::int32_t chunks;  // of a line
  const void* keys_in;  // candidates; null: the elements of the line
  const std::uint32_t* places_in;
  void* keys_out;  // candidates; null: results are written
  std::uint32_t* places_out;
};

}  // namespace tessera::ops::cuda
