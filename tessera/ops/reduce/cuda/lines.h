// Strided loops as walks of kernels (ops/cuda/walk.h).
#pragma once

#include "tessera/ops/cuda/walk.h"
#include "tessera/ops/shape/detail/strided_loop.h"

namespace tessera::ops::cuda {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Converts a loop to a Walk. Groups `width` elements of the innermost dimension.
template <std::size_t N>
Walk walk_over(const detail::StridedLoop<N>& loop, std::int64_t width = 1) {
  Walk walk = empty_walk();
  for (std::size_t d = loop.ndim(); d-- > 0;) {
    std::int64_t along[N];
    const std::int64_t taken = d + 1 == loop.ndim() ? width : 1;
    for (std::size_t i = 0; i < N; ++i) along[i] = loop.stride(i, d) * taken;
    walk.add(loop.size(d) / taken, along, static_cast<int>(N));
  }
  return walk;
}

}  // namespace tessera::ops::cuda
