// An operator that computes nothing and only moves elements (cat, flip, roll, pad, slice), as data: for each input and
// each dimension, the target of each run of indices in the result.
//
//   roll by 2 of 10     [0, 8) -> 2, [8, 10) -> 0         pad by 3 in front     [0, 10) -> 3, and the fill before it
//   every second        0, 2, 4, ... -> 0, 1, 2, ...      cat                   of the second input [0, 4) -> 10
//
// The runs of all dimensions determine the target of an element. If such a dimension is sharded, the shard layer sends
// only the elements that change ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/tensor/scalar.h"

namespace tessera::tensor {

/// A run along one dimension: index from + i * from_step of an input goes to index to + i * to_step of the result, for
/// i in [0, length). Steps are at least 1.
struct MovedRun {
  std::int64_t from = 0;       ///< First index in the input.
  std::int64_t to = 0;         ///< First index in the result.
  std::int64_t length = 0;     ///< Number of indices.
  std::int64_t from_step = 1;  ///< Stride in the input.
  std::int64_t to_step = 1;    ///< Stride in the result.
  /// Compares all fields.
  friend bool operator==(const MovedRun&, const MovedRun&) = default;
};

/// Movement of all elements. The inputs and the result have the same number of dimensions.
struct Rearrangement {
  std::vector<std::vector<std::vector<MovedRun>>> inputs;  ///< Runs of each input, by dimension.
  /// By dimension: the runs lead to the reversed result. Empty: no dimension is reversed.
  std::vector<bool> is_reversed = {};
  Scalar fill = 0;  ///< Value of elements that no run reaches.
};

}  // namespace tessera::tensor
