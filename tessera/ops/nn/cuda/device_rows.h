// A tensor as rows along one dimension, as kernels take it: the device's side of nn/detail/rows.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/base/dtype.h"

namespace tessera::ops::cuda {

/// The most dimensions that rows are found by, after those that lie as one are merged.
inline constexpr int kMostRowDims = 8;
/// Rows up to this long are one warp's, which holds them in registers.
inline constexpr std::int64_t kShortRow = 1024;

/// Where rows lie; data null: there is no tensor.
struct DeviceRows {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int32_t ndim = 0;
  std::int64_t step = 1;    // between elements of a row
  std::int64_t length = 1;  // of a row
  std::int64_t count = 1;   // of rows
  std::int64_t sizes[kMostRowDims] = {};
  std::int64_t strides[kMostRowDims] = {};

#if defined(__CUDACC__)
  /// Offset of a row's first element.
  __device__ std::int64_t place(std::int64_t row) const {
    if (ndim == 1) return row * strides[0];
    std::int64_t offset = 0;
    for (int d = ndim; d-- > 0;) {
      offset += row % sizes[d] * strides[d];
      row /= sizes[d];
    }
    return offset;
  }
#endif
  /// Whether `n` elements at a time, from the start of a row on, lie so that they can be loaded at once.
  [[nodiscard]] bool has_vectors(std::int64_t n) const {
    bool fits = step == 1 && length % n == 0;
    for (int d = 0; d < ndim; ++d) fits &= strides[d] % n == 0;
    const std::uintptr_t nbytes = std::min<std::uintptr_t>(static_cast<std::uintptr_t>(n) * itemsize(dtype), 16);
    return fits && reinterpret_cast<std::uintptr_t>(data) % nbytes == 0;
  }
};

}  // namespace tessera::ops::cuda
