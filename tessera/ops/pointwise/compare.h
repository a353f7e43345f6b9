// Comparisons, logical operators and predicates, element by element. Results are bool. A nan is not equal to any value
// and has no order. Every value other than zero is true.
#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Returns whether a equals b.
TESSERA_API Tensor eq(const Tensor& a, const Tensor& b);
/// Returns whether a equals b, a number.
TESSERA_API Tensor eq(const Tensor& a, const Scalar& b);
/// Returns whether a differs from b.
TESSERA_API Tensor ne(const Tensor& a, const Tensor& b);
/// Returns whether a differs from b, a number.
TESSERA_API Tensor ne(const Tensor& a, const Scalar& b);
/// Returns whether a is less than b.
TESSERA_API Tensor lt(const Tensor& a, const Tensor& b);
/// Returns whether a is less than b, a number.
TESSERA_API Tensor lt(const Tensor& a, const Scalar& b);
/// Returns whether a is at most b.
TESSERA_API Tensor le(const Tensor& a, const Tensor& b);
/// Returns whether a is at most b, a number.
TESSERA_API Tensor le(const Tensor& a, const Scalar& b);
/// Returns whether a is greater than b.
TESSERA_API Tensor gt(const Tensor& a, const Tensor& b);
/// Returns whether a is greater than b, a number.
TESSERA_API Tensor gt(const Tensor& a, const Scalar& b);
/// Returns whether a is at least b.
TESSERA_API Tensor ge(const Tensor& a, const Tensor& b);
/// Returns whether a is at least b, a number.
TESSERA_API Tensor ge(const Tensor& a, const Scalar& b);
/// Returns whether a and b are true.
TESSERA_API Tensor logical_and(const Tensor& a, const Tensor& b);
/// Returns whether at least one of them is true.
TESSERA_API Tensor logical_or(const Tensor& a, const Tensor& b);
/// Returns whether exactly one of them is true.
TESSERA_API Tensor logical_xor(const Tensor& a, const Tensor& b);
/// Returns whether x is zero.
TESSERA_API Tensor logical_not(const Tensor& x);
/// Returns whether x is nan.
TESSERA_API Tensor isnan(const Tensor& x);
/// Returns whether x is neither infinite nor nan.
TESSERA_API Tensor isfinite(const Tensor& x);

}  // namespace tessera::ops
