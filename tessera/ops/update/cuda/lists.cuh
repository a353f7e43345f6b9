// Device side of update_lists.h.
#pragma once

#include "tessera/ops/cuda/elements.cuh"
#include "tessera/ops/update/cuda/update_lists.h"

namespace tessera::ops::cuda {

/// Returns the tensor of a unit: the last one that begins at or before it.
__device__ inline int tensor_of(const TensorLists& lists, std::int64_t unit) {
  int low = 0;
  int high = lists.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (lists.first_unit[middle] <= unit) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Computes the offsets of the first kParts parts at element `i`.
template <int kParts>
__device__ inline void offsets_of(const StridedTensor& of, std::int64_t i, std::int64_t (&at)[kParts]) {
#pragma unroll
  for (int part = 0; part < kParts; ++part) at[part] = 0;
  for (int d = of.ndim; d-- > 0;) {
    const std::int64_t above = i / of.sizes[d];
    const std::int64_t digit = i - above * of.sizes[d];
    i = above;
#pragma unroll
    for (int part = 0; part < kParts; ++part) at[part] += digit * of.strides[part][d];
  }
}

}  // namespace tessera::ops::cuda
