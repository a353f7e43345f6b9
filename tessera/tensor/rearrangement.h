// What an operator does that computes nothing and only puts elements elsewhere (cat, flip, roll, pad, slice), as data:
// for each input and each of its dimensions, which runs of indices go where in the result.
//
//   roll by 2 of 10     [0, 8) -> 2, [8, 10) -> 0         pad by 3 in front     [0, 10) -> 3, and the fill before it
//   every second        0, 2, 4, ... -> 0, 1, 2, ...      cat                   of the second input [0, 4) -> 10
//
// An element goes where the runs of all its dimensions say. From this the shard layer finds what has to change its rank
// when such a dimension is cut, and that alone is sent.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/tensor/scalar.h"

namespace tessera::tensor {

/// Along one dimension: index from + i * from_step of an input goes to index to + i * to_step of the result, for i from
/// 0 to length - 1. Steps are at least 1.
struct MovedRun {
  std::int64_t from = 0;       ///< the first, in the input
  std::int64_t to = 0;         ///< and in the result
  std::int64_t length = 0;     ///< how many
  std::int64_t from_step = 1;  ///< to the next, in the input
  std::int64_t to_step = 1;    ///< and in the result
  /// The same numbers.
  friend bool operator==(const MovedRun&, const MovedRun&) = default;
};

/// See the head of this file. Inputs and the result have as many dimensions.
struct Rearrangement {
  std::vector<std::vector<std::vector<MovedRun>>> inputs;  ///< the runs of each input, by dimension
  std::vector<bool> is_reversed =
      {};           ///< by dimension: the runs lead to the result read backwards; none given: none is
  Scalar fill = 0;  ///< elements that no run leads to
};

}  // namespace tessera::tensor
