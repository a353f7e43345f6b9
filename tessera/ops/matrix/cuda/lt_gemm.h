// A product of matrices in the form of cuBLASLt, and its launch.
//
// The best algorithm for given sizes, strides and alignments is determined once and cached, up to kMaxPlans. Sums are
// computed in f32 (f64 for f64) and rounded once. TF32, partial sums in a half type and sums of varying order are not
// used, so that equal calls give equal bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/tensor/op_def.h"

namespace tessera::ops::cuda {

/// Maximum number of cached plans per device. Beyond it, all are dropped.
inline constexpr std::size_t kMaxPlans = 2048;

/// A column-major matrix: element [i, j] is at data[i + j * stride]; if transposed, at data[j + i * stride].
struct LtMatrix {
  std::byte* data = nullptr;
  std::int64_t stride = 1;
  std::int64_t batch_stride = 0;
  bool is_transposed = false;
};

/// c[m, n] = a[m, k] b[k, n] for each of `batch`; sizes are at least 1, c is not transposed.
struct LtProduct {
  std::int64_t m = 1, n = 1, k = 1, batch = 1;
  DType dtype = DType::kF32;    // of a and b: f32, f64, bf16, f16 or c64
  DType c_dtype = DType::kF32;  // the same, or f32 if a and b have a half dtype
  bool is_added = false;        // adds the product to c
  LtMatrix a, b, c;
};

/// Returns true if cuBLASLt computes in this dtype.
bool is_lt_dtype(DType dtype);
/// Launches the product on the stream of the call, with a workspace from the allocator of the call.
void launch_lt_gemm(const tensor::KernelCall& call, const LtProduct& product);

}  // namespace tessera::ops::cuda
