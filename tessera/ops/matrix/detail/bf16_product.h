// One serial product of bf16 matrices by oneDNN, where the processor has fast instructions for it: AMX, or AVX512_BF16
// with about twice the speed of f32. Sums are f32, in an order that depends on sizes and strides alone. These
// instructions read subnormal numbers as zero.
#pragma once

#include "tessera/base/dtype.h"
#include "tessera/ops/matrix/detail/product.h"

namespace tessera::ops::detail {

/// Computes c[m, n] = a b on the calling thread, or c += a b if `is_added`; c is bf16 (rounded once) or f32, its rows
/// `c_stride` elements apart. Needs has_fast_bf16(), and sizes of at least 1.
void multiply_bf16(const GemmSizes& sizes, const ProductOperand<bf16>& a, const ProductOperand<bf16>& b, bool is_added,
                   DType c_dtype, void* c, std::int64_t c_stride);

}  // namespace tessera::ops::detail
