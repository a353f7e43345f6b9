// How kernels walk over elements that do not lie dense: a Loop (ops/detail/loops.h) as plain data that is passed to a
// launch by value. A thread takes the number of an element apart into its digits, one division a dimension; where there
// are less than 2^31 elements a division is a multiplication and a shift.
#pragma once

#include <cstdint>

namespace tessera::ops::detail {
class Loop;
}  // namespace tessera::ops::detail

namespace tessera::ops::cuda {

/// Divides numbers below 2^31: (n * magic / 2^32 + n) / 2^shift.
struct Divider {
  std::uint32_t magic;
  std::uint32_t shift;
};

/// See the head of this file. Innermost dimension first.
struct Walk {
  static constexpr int kMostDims = 16;     // behind merging
  static constexpr int kMostOperands = 4;  // the result and three inputs

  std::int64_t numel;
  std::int32_t ndim;  // at least 1
  bool is_small;      // below 2^31 elements
  std::int64_t first[kMostOperands];
  std::int64_t sizes[kMostDims];
  Divider dividers[kMostDims];
  std::int64_t steps[kMostDims][kMostOperands];

  /// Adds a dimension outside of those before it; steps of `count` operands.
  void add(std::int64_t size, const std::int64_t* along, int count);
};

/// The walk of a loop, which must have no more operands than a Walk. In vectors of `width` elements, those of the
/// innermost dimension are taken together; its size is a multiple of that. NotSupported past kMostDims dimensions.
Walk walk_of(const detail::Loop& loop, std::int64_t width = 1);
/// A walk without dimensions yet.
Walk empty_walk();
/// Whether the loop can be walked in vectors of `width`: along the innermost dimension, whose size is a multiple of
/// that, operands lie in steps of 1 or, the first excepted, 0; elsewhere in steps that are multiples of `width`.
bool has_vectors(const detail::Loop& loop, std::int64_t width);

}  // namespace tessera::ops::cuda
