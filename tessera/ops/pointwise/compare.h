// Claims about elements: comparisons, truth, and what kind of number it is. Results are bool. A nan is equal to nothing
// and in no order; anything but zero is true.
#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Whether a equals b.
TESSERA_API Tensor eq(const Tensor& a, const Tensor& b);
/// Likewise, of a number.
TESSERA_API Tensor eq(const Tensor& a, const Scalar& b);
/// Whether a differs from b.
TESSERA_API Tensor ne(const Tensor& a, const Tensor& b);
/// Likewise, of a number.
TESSERA_API Tensor ne(const Tensor& a, const Scalar& b);
/// Whether a is less than b.
TESSERA_API Tensor lt(const Tensor& a, const Tensor& b);
/// Likewise, of a number.
TESSERA_API Tensor lt(const Tensor& a, const Scalar& b);
/// Whether a is at most b.
TESSERA_API Tensor le(const Tensor& a, const Tensor& b);
/// Likewise, of a number.
TESSERA_API Tensor le(const Tensor& a, const Scalar& b);
/// Whether a is greater than b.
TESSERA_API Tensor gt(const Tensor& a, const Tensor& b);
/// Likewise, of a number.
TESSERA_API Tensor gt(const Tensor& a, const Scalar& b);
/// Whether a is at least b.
TESSERA_API Tensor ge(const Tensor& a, const Tensor& b);
/// Likewise, of a number.
TESSERA_API Tensor ge(const Tensor& a, const Scalar& b);
/// Whether both are true.
TESSERA_API Tensor logical_and(const Tensor& a, const Tensor& b);
/// Whether one of them is true.
TESSERA_API Tensor logical_or(const Tensor& a, const Tensor& b);
/// Whether exactly one of them is true.
TESSERA_API Tensor logical_xor(const Tensor& a, const Tensor& b);
/// Whether x is zero.
TESSERA_API Tensor logical_not(const Tensor& x);
/// Whether x is no number.
TESSERA_API Tensor isnan(const Tensor& x);
/// Whether x is neither infinite nor nan.
TESSERA_API Tensor isfinite(const Tensor& x);

}  // namespace tessera::ops
