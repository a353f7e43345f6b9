// Rotary position embedding: rotates pairs of elements of each vector by an angle that grows with its position and
// decreases with the index of the pair, so that products of two vectors depend on the distance of their positions.
//
// Pair i of a vector of width d rotates by position / base^(2 i / d). Half-split pairs are elements i and i + d / 2;
// interleaved pairs are 2 i and 2 i + 1. Elements after `width` are unchanged.
//
// Scaling for longer contexts divides positions by `factor`. With `original_context` only slow pairs are scaled: fully
// if the pair turns fewer than `low_turns` times over the original context, not at all if it turns more than
// `high_turns` times, and by a blend in between.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Parameters of the rotation.
struct RopeAttributes {
  std::int64_t dim = -2;              ///< the dimension of positions; the last one holds the vectors
  std::int64_t width = 0;             ///< number of elements that are rotated, even; 0: all
  double base = 10000;                ///< base of the angles
  bool is_interleaved = false;        ///< pairs are 2 i and 2 i + 1 instead of i and i + d / 2
  bool is_inverse = false;            ///< rotates backwards, as the gradient does
  double factor = 1;                  ///< divisor of positions
  std::int64_t original_context = 0;  ///< 0: all pairs are scaled equally
  double low_turns = 1;               ///< bound of full scaling, with original_context
  double high_turns = 4;              ///< bound of no scaling, with original_context
  std::int64_t offset = 0;            ///< added to every position if `positions` is omitted
  /// Global indices of the local shard along `dim`; empty: the shard is the global tensor.
  std::vector<layout::IndexMap> index = {};
  TESSERA_ATTRIBUTES(dim, width, base, is_interleaved, is_inverse, factor, original_context, low_turns, high_turns,
                     offset, index)
};

/// Returns x rotated, with the memory order of x. Positions count from `offset` along `dim`, or are given (i64 or i32)
/// as [size of dim] or [size of dimension 0, size of dim].
TESSERA_API Tensor rope(const Tensor& x, const RopeAttributes& how = {}, const Tensor& positions = {});

}  // namespace tessera::ops
