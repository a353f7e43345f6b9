// Iteration of kernels over elements that are not contiguous: a Loop (ops/detail/loops.h) as plain data, passed to a
// launch by value. A thread converts the number of an element to indices with one division per dimension. Below 2^31
// elements, a division is a multiplication and a shift.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace tessera::ops::detail {
class Loop;
template <std::size_t N>
class StridedLoop;
}  // namespace tessera::ops::detail

namespace tessera::ops::cuda {

/// Divides numbers below 2^31: (n * magic / 2^32 + n) / 2^shift.
struct Divider {
  std::uint32_t magic;
  std::uint32_t shift;
};
/// Returns the divider by `size`, which must be in [1, 2^31]. For other sizes, the result must not be used.
Divider divider_of(std::int64_t size);

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
/// Converts a strided loop (ops/shape/detail/strided_loop.h).
template <std::size_t N>
Walk walk_of(const detail::StridedLoop<N>& loop) {
  static_assert(N <= Walk::kMaxOperands);
  Walk walk = empty_walk();
  for (std::size_t d = loop.ndim(); d-- > 0;) {
    std::int64_t along[N];
    for (std::size_t o = 0; o < N; ++o) along[o] = loop.stride(o, d);
    walk.add(loop.size(d), along, static_cast<int>(N));
  }
  return walk;
}
/// Returns the number of adjacent items of `item` bytes that can be moved as one of at most 16 bytes: 1, 2, 4, 8 or 16.
/// The first `moved` operands are arrays of items at these addresses, contiguous along the innermost dimension; the
/// other operands are constant along it.
std::int64_t items_together(const Walk& walk, std::int64_t item, std::initializer_list<const void*> moved);
/// Returns the walk over groups of `together` items. Offsets of the first `moved` operands count groups.
Walk in_groups(const Walk& walk, std::int64_t together, int moved);
/// Returns true if vectors of `width` are possible: the innermost size is a multiple of `width`, operands have stride 1
/// or (except the first) 0 along it, and all other strides are multiples of `width`.
bool has_vectors(const detail::Loop& loop, std::int64_t width);

}  // namespace tessera::ops::cuda
