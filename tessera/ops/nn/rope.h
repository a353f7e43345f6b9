// Rotary position embedding: pairs of elements of each vector are rotated by an angle that grows with its position and
// falls with the pair's place, so that products of two vectors depend on the distance of their positions.
//
// Pair i of a vector of width d turns by position / base^(2 i / d). Half-split pairs are elements i and i + d / 2;
// interleaved ones are 2 i and 2 i + 1. Elements behind `width` pass as they are.
//
// Scaling for longer contexts: positions are divided by `factor`; or, with `original_context`, only slow pairs are: a
// pair that turns fewer than `low_turns` times over the original context is slowed by `factor`, one that turns more
// than `high_turns` times not at all, and between them it is blended.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// See the head of this file.
struct RopeAttributes {
  std::int64_t dim = -2;              ///< the dimension of positions; the last one holds the vectors
  std::int64_t width = 0;             ///< elements that are rotated, an even number; 0: all
  double base = 10000;                ///< of the angles
  bool is_interleaved = false;        ///< which elements are pairs
  bool is_inverse = false;            ///< turns back: the gradient
  double factor = 1;                  ///< by which positions are divided
  std::int64_t original_context = 0;  ///< 0: all pairs are scaled alike
  double low_turns = 1;               ///< with original_context
  double high_turns = 4;              ///< with original_context
  std::int64_t offset = 0;            ///< added to every position that `positions` does not give
  /// Where this rank's part of `dim` lies in the whole; none: it is the whole.
  std::vector<layout::IndexMap> index = {};
  TESSERA_ATTRIBUTES(dim, width, base, is_interleaved, is_inverse, factor, original_context, low_turns, high_turns,
                     offset, index)
};

/// x rotated, laid out in memory as x is. Positions count from `offset` along `dim`; or are given, i64 or i32, as [size
/// of dim] or [size of dimension 0, size of dim].
TESSERA_API Tensor rope(const Tensor& x, const RopeAttributes& how = {}, const Tensor& positions = {});

}  // namespace tessera::ops
