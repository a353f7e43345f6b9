// A product of matrices as cuBLASLt takes it, and its launch.
//
// How a product of some sizes, strides and alignments is best computed is asked once and remembered, as many as
// kMaxPlans. Sums are made in f32 (f64 for f64), never in reduced formats, and rounded once: neither TF32 nor split
// sums that are kept in a half type or added in an order that varies. So the same call gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/tensor/op_def.h"

namespace tessera::ops::cuda {

/// The most plans remembered for a device; when there are more all are forgotten.
inline constexpr std::size_t kMaxPlans = 2048;

/// A matrix by columns: element [i, j] is at data[i + j * stride]. Transposed: [j + i * stride].
struct LtMatrix {
  std::byte* data = nullptr;
  std::int64_t stride = 1;
  std::int64_t batch_stride = 0;
  bool is_transposed = false;
};

/// c[m, n] = a[m, k] b[k, n] for each of `batch`, all of one dtype; sizes are at least 1, c is not transposed.
struct LtProduct {
  std::int64_t m = 1, n = 1, k = 1, batch = 1;
  DType dtype = DType::kF32;  // f32, f64, bf16, f16 or c64
  LtMatrix a, b, c;
};

/// Whether cuBLASLt computes in it.
bool is_lt_dtype(DType dtype);
/// Launches it on the call's stream, with the workspace it needs from the call's allocator.
void launch_lt_gemm(const tensor::KernelCall& call, const LtProduct& product);

}  // namespace tessera::ops::cuda
