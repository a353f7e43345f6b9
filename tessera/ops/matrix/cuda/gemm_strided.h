// Arguments of the kernels in gemm_strided.cu, for the host and the device.
#pragma once

#include <cstdint>

#include "tessera/base/dtype.h"

namespace tessera::ops::cuda {

/// Maximum number of dimensions after merging.
inline constexpr int kMaxGemmDims = 16;

/// A copy between two strided arrays, dimensions outermost first, steps in elements. If `from` is null, zeros.
struct StridedMove {
  void* to = nullptr;
  const void* from = nullptr;
  std::int64_t numel = 0;
  std::int32_t itemsize = 4;
  std::int32_t ndim = 0;
  std::int64_t sizes[kMaxGemmDims] = {};
  std::int64_t to_steps[kMaxGemmDims] = {};
  std::int64_t from_steps[kMaxGemmDims] = {};
};

/// A product of integers with 64-bit sums. One thread computes one element of c.
struct IntegerGemm {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  DType dtype = DType::kI64;
  bool is_added = false;  // adds the product to c
  std::int32_t nloops = 0;
  std::int32_t nk = 0;  // number of dimensions of k
  std::int64_t numel = 0;
  std::int64_t m = 0, n = 0;
  std::int64_t a_row = 0, b_col = 0, c_row = 0, c_col = 0;
  std::int64_t loop_sizes[kMaxGemmDims] = {};
  std::int64_t loop_a[kMaxGemmDims] = {}, loop_b[kMaxGemmDims] = {}, loop_c[kMaxGemmDims] = {};
  std::int64_t k_sizes[kMaxGemmDims] = {};
  std::int64_t k_a[kMaxGemmDims] = {}, k_b[kMaxGemmDims] = {};
};

}  // namespace tessera::ops::cuda
