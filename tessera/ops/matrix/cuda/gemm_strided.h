// What the kernels of gemm_strided.cu take: shared by the host and the device.
#pragma once

#include <cstdint>

#include "tessera/base/dtype.h"

namespace tessera::ops::cuda {

/// The most dimensions that are left after merging.
inline constexpr int kMaxGemmDims = 16;

/// Copies elements between two strided places; dimensions outermost first, steps in elements. From null: writes zeros.
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

/// A product of integers, summed in 64 bits: one element of c is for one thread.
struct IntegerGemm {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  DType dtype = DType::kI64;
  std::int32_t nloops = 0;
  std::int32_t nk = 0;  // how many dimensions k is
  std::int64_t numel = 0;
  std::int64_t m = 0, n = 0;
  std::int64_t a_row = 0, b_col = 0, c_row = 0, c_col = 0;
  std::int64_t loop_sizes[kMaxGemmDims] = {};
  std::int64_t loop_a[kMaxGemmDims] = {}, loop_b[kMaxGemmDims] = {}, loop_c[kMaxGemmDims] = {};
  std::int64_t k_sizes[kMaxGemmDims] = {};
  std::int64_t k_a[kMaxGemmDims] = {}, k_b[kMaxGemmDims] = {};
};

}  // namespace tessera::ops::cuda
