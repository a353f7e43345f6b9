// A tensor as rows along one dimension, as kernels receive it. This is the device side of nn/detail/rows.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/base/dtype.h"
#include "tessera/ops/cuda/walk.h"
#if defined(__CUDACC__)
#include "tessera/ops/cuda/strided.cuh"
#endif

namespace tessera::ops::cuda {

/// Maximum number of dimensions that identify a row, after merging.
inline constexpr int kMaxRowDims = 8;
/// Maximum number of threads that read a row one element at a time, or again at every pass.
inline constexpr int kMaxRowThreads = 512;
/// Vectors of 16 bytes of a row that one thread holds in registers, and the maximum number of these threads. Longer
/// rows are read at every pass.
inline constexpr int kHeldVectors = 4;
inline constexpr int kMaxHeldThreads = 512;

/// The threads of a block that process one row.
struct RowThreads {
  std::int32_t width = 32;  // threads per row
  /// Otherwise `width` consecutive threads, a power of two. With this, a block processes 32 rows at a time, thread i
  /// of each warp row i, so that rows whose first elements are adjacent are read at full bandwidth.
  bool is_across = false;
};

/// Address, strides and sizes of rows. If data is null, the tensor is absent.
struct DeviceRows {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int32_t ndim = 0;
  std::int64_t step = 1;    // stride between elements of a row
  std::int64_t length = 1;  // length of a row
  std::int64_t count = 1;   // number of rows
  std::int64_t sizes[kMaxRowDims] = {};
  std::int64_t strides[kMaxRowDims] = {};
  Divider dividers[kMaxRowDims] = {};  // by the sizes, if fewer than 2^31 rows exist

#if defined(__CUDACC__)
  /// Returns the offset of the first element of a row.
  __device__ std::int64_t place(std::int64_t row) const {
    if (ndim <= 1) return row * strides[0];
    std::int64_t offset = 0;
    const bool is_small = count < std::int64_t{1} << 31;
#pragma unroll 1
    for (int d = ndim - 1; d > 0; --d) {
      const std::int64_t above = is_small ? divided(static_cast<std::uint32_t>(row), dividers[d]) : row / sizes[d];
      offset += (row - above * sizes[d]) * strides[d];
      row = above;
    }
    return offset + row * strides[0];
  }
#endif
  /// Returns true if each group of `n` elements from the start of a row can be loaded as a vector.
  [[nodiscard]] bool has_vectors(std::int64_t n) const {
    bool fits = step == 1 && length % n == 0;
    for (int d = 0; d < ndim; ++d) fits &= strides[d] % n == 0;
    const std::uintptr_t nbytes = std::min<std::uintptr_t>(static_cast<std::uintptr_t>(n) * itemsize(dtype), 16);
    return fits && reinterpret_cast<std::uintptr_t>(data) % nbytes == 0;
  }
};

}  // namespace tessera::ops::cuda
