// c += alpha * a b in vector code of ours, for element types that oneDNN does not multiply. Blocks of both operands are
// packed into panels that fit the caches; a register tile of 6 rows and two vectors runs over them.
#pragma once

#include "tessera/ops/matrix/detail/product.h"

namespace tessera::ops::detail {

/// Adds alpha * a b to c[m, n], on the calling thread.
void add_dense_product(const GemmSizes& sizes, double alpha, const ProductOperand<double>& a,
                       const ProductOperand<double>& b, double* c, std::int64_t c_stride);

}  // namespace tessera::ops::detail
