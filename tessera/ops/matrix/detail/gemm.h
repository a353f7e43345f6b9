// Batches of products of strided matrices.
//
// The output is split into tiles by the sizes, the strides and the number of cores per rank. Each tile is one serial
// product, or one per block of k, and runs on a thread of the rank. The bits do not depend on the number of threads.
// Operands are read in place if possible, also transposed. Other operands (half types, gaps, several reduced dimensions
// that do not merge) are first packed into panels of the compute type, tile by tile. Half types are accumulated in f32
// and rounded once. bf16 is multiplied without packing if the processor has fast instructions for it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/base/small_vector.h"
#include "tessera/ops/detail/elements.h"
#include "tessera/ops/matrix/detail/product.h"

namespace tessera::ops::detail {

/// A matrix in memory: the address of the first element, and steps in elements.
struct GemmOperand {
  std::byte* data = nullptr;
  std::int64_t row = 0;
  std::int64_t col = 0;
  DType dtype = DType::kF32;  // operands of one product have one compute type
};

/// A dimension over which the product is repeated. The step of an operand without this dimension is 0.
struct GemmLoop {
  std::int64_t size = 1;
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 0;
};

/// c[i, j] = sum over x of a[i, x] b[x, j], for every index of the loops.
struct Gemm {
  GemmSizes sizes;
  GemmOperand a;
  GemmOperand b;
  GemmOperand c;
  SmallVector<GemmLoop, 4> loops;   // outermost first
  SmallVector<GemmLoop, 4> k_dims;  // if k consists of several dimensions that do not merge: all, outermost first
  bool is_added = false;            // adds the product to c
};

/// Computes the product on the threads of the rank. Kernels call it when they run. Writes zeros if k is empty.
void run_gemm(const Gemm& gemm);
/// A product that is one call of multiply() in f32. A closure can hold it without an allocation.
struct SingleGemm {
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  std::int32_t m = 0, n = 0, k = 0;
  std::int32_t a_stride = 0, b_stride = 0, c_stride = 0;
  bool is_a_transposed = false, is_b_transposed = false;

  /// Makes the call.
  void run() const;
};
/// Returns the product as one call if it is one. The answer depends only on sizes, strides and dtypes.
std::optional<SingleGemm> single_gemm(const GemmSizes& sizes, const GemmOperand& a, const GemmOperand& b,
                                      const GemmOperand& c);
/// Returns true if products are computed in this dtype: f32, f64, bf16, f16, c64, signed integers and u8.
bool is_matrix_dtype(DType dtype);

}  // namespace tessera::ops::detail
