// Products of strided matrices of any dtype that matrices are computed in, many of them in one go.
//
// The output is cut into tiles by the sizes, the strides and the cores that ranks of this machine have, and each tile
// is one serial product (or one a block of k), run on the threads of the rank: the same bits for any number of threads.
// What a product can read as it lies, also transposed, it does; other operands (half types, gaps, several reduced
// dimensions that do not merge) are packed into panels of the compute type first, tile by tile. Half types are
// accumulated in f32 and rounded once; bf16 is multiplied as it lies where the processor has fast instructions for
// that.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/base/small_vector.h"
#include "tessera/ops/detail/elements.h"
#include "tessera/ops/matrix/detail/product.h"

namespace tessera::ops::detail {

/// Where a matrix lies: bytes of the first element, and steps in elements.
struct GemmOperand {
  std::byte* data = nullptr;
  std::int64_t row = 0;
  std::int64_t col = 0;
  DType dtype = DType::kF32;  // all three are computed in one type
};

/// A dimension over which the product is repeated; a step of 0 where an operand does not have it.
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
  SmallVector<GemmLoop, 4> k_dims;  // where k is several dimensions that do not merge: all of them, outermost first
  bool is_added = false;            // to what c holds
};

/// Runs it on the threads of the rank; called when a kernel runs. Writes zeros where k is empty.
void run_gemm(const Gemm& gemm);
/// A product that is one call of multiply() in f32: small enough for a closure to hold it in place.
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
/// The product as one, where it is one; depends on sizes, strides and dtypes alone.
std::optional<SingleGemm> single_gemm(const GemmSizes& sizes, const GemmOperand& a, const GemmOperand& b,
                                      const GemmOperand& c);
/// Whether products are computed in this dtype: f32, f64, bf16, f16, c64, signed integers and u8.
bool is_matrix_dtype(DType dtype);

}  // namespace tessera::ops::detail
