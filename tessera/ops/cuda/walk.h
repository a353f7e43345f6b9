// Iteration of kernels over elements that are not contiguous: a Loop (ops/detail/loops.h) as plain data, passed to a
// launch by value. A thread converts the number of an element to indices with one division per dimension. Below 2^31
// elements, a division is a multiplication and a shift.
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

/// The sizes and strides of a loop, innermost dimension first.
struct Walk {
  static constexpr int kMaxDims = 16;     // after merging
  static constexpr int kMaxOperands = 5;  // the result and four inputs

  std::int64_t numel;
  std::int32_t ndim;  // at least 1
  bool is_small;      // fewer than 2^31 elements
  std::int64_t first[kMaxOperands];
  std::int64_t sizes[kMaxDims];
  Divider dividers[kMaxDims];
  std::int64_t steps[kMaxDims][kMaxOperands];

  /// Adds an outermost dimension with the steps of `count` operands.
  void add(std::int64_t size, const std::int64_t* along, int count);
};

/// Converts a loop, which must not have more operands than a Walk. With `width` above 1, elements of the innermost
/// dimension are grouped into vectors; its size is a multiple of `width`. Throws NotSupported above kMaxDims
/// dimensions.
Walk walk_of(const detail::Loop& loop, std::int64_t width = 1);
/// Returns a walk without dimensions.
Walk empty_walk();
/// Returns true if vectors of `width` are possible: the innermost size is a multiple of `width`, operands have stride 1
/// or (except the first) 0 along it, and all other strides are multiples of `width`.
bool has_vectors(const detail::Loop& loop, std::int64_t width);

}  // namespace tessera::ops::cuda
