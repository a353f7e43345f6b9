// Small products of f32. The call of oneDNN finds its kernel and packs both operands, which takes a fifth of the time
// of a product of 64 cubed. These kernels read their operands in place, in register tiles, and pack only a transposed
// b.
#pragma once

#include "tessera/ops/matrix/detail/product.h"

namespace tessera::ops::detail {

/// Returns true if multiply_small computes a product of these sizes faster than the library. The answer depends only on
/// the sizes, on `is_b_transposed` and on the processor, because the bits of a result depend on it.
bool is_small_product(const GemmSizes& sizes, bool is_b_transposed);

/// Computes c[m, n] = alpha * a b + beta * c on the calling thread. With beta 0, c is not read. Requires
/// is_small_product(). Each element is one sum over k, in order.
void multiply_small(const GemmSizes& sizes, float alpha, const ProductOperand<float>& a, const ProductOperand<float>& b,
                    float beta, float* c, std::int64_t c_stride);

}  // namespace tessera::ops::detail
