// Device side of a Walk (walk.h).
#pragma once

#include <cstdint>

#include "tessera/ops/cuda/walk.h"

namespace tessera::ops::cuda {

/// Returns n / size for n below 2^31.
__device__ inline std::uint32_t divided(std::uint32_t n, const Divider& by) {
  return (__umulhi(n, by.magic) + n) >> by.shift;
}

/// Computes the offsets of the first kOperands operands at an element of the walk, in elements from the first of each.
/// Loops over dimensions are not unrolled: most walks have few, and kernels that call this often must remain in the
/// instruction cache.
template <int kOperands>
__device__ inline void offsets_at(const Walk& walk, std::int64_t element, std::int64_t (&offsets)[kOperands]) {
#pragma unroll
  for (int o = 0; o < kOperands; ++o) offsets[o] = walk.first[o];
  const int outer = walk.ndim - 1;
  if (walk.is_small) {
    auto rest = static_cast<std::uint32_t>(element);
#pragma unroll 1
    for (int d = 0; d < outer; ++d) {
      const std::uint32_t above = divided(rest, walk.dividers[d]);
      const auto digit = static_cast<std::int64_t>(rest - above * static_cast<std::uint32_t>(walk.sizes[d]));
#pragma unroll
      for (int o = 0; o < kOperands; ++o) offsets[o] += digit * walk.steps[d][o];
      rest = above;
    }
#pragma unroll
    for (int o = 0; o < kOperands; ++o) offsets[o] += static_cast<std::int64_t>(rest) * walk.steps[outer][o];
  } else {
#pragma unroll 1
    for (int d = 0; d < outer; ++d) {
      const std::int64_t above = element / walk.sizes[d];
      const std::int64_t digit = element - above * walk.sizes[d];
#pragma unroll
      for (int o = 0; o < kOperands; ++o) offsets[o] += digit * walk.steps[d][o];
      element = above;
    }
#pragma unroll
    for (int o = 0; o < kOperands; ++o) offsets[o] += element * walk.steps[outer][o];
  }
}

}  // namespace tessera::ops::cuda
