// Operators of C++ on tensors: x * 2 + y, -x, x < y, w -= 0.1 * g. They call the functions of tessera/ops/pointwise,
// which document broadcasting and promotion, and are defined in tessera/ops/operators.cpp.
#pragma once

#include <utility>

#include "tessera/base/export.h"
#include "tessera/tensor/scalar.h"
#include "tessera/tensor/tensor.h"

namespace tessera::tensor {

/// Result of a comparison: a tensor of bool. `if (a < b)` does not compile, because a handle converts to true if it
/// refers to a tensor; write `if ((a < b).all().item<bool>())`, or `a.is_same(b)` for handles.
class Mask : public Tensor {
 public:
  /// Constructs a mask that shares the elements of `elements`.
  explicit Mask(Tensor elements) : Tensor(std::move(elements)) {}
  explicit operator bool() const = delete;
};

/// Returns ops::add(a, b).
TESSERA_API Tensor operator+(const Tensor& a, const Tensor& b);
/// Returns ops::add(a, b).
TESSERA_API Tensor operator+(const Tensor& a, const Scalar& b);
/// Returns ops::add(a, b).
TESSERA_API Tensor operator+(const Scalar& a, const Tensor& b);
/// Replaces a by ops::add(a, b). Returns a.
TESSERA_API const Tensor& operator+=(const Tensor& a, const Tensor& b);
/// Replaces a by ops::add(a, b). Returns a.
TESSERA_API const Tensor& operator+=(const Tensor& a, const Scalar& b);
/// Returns ops::sub(a, b).
TESSERA_API Tensor operator-(const Tensor& a, const Tensor& b);
/// Returns ops::sub(a, b).
TESSERA_API Tensor operator-(const Tensor& a, const Scalar& b);
/// Returns ops::sub(a, b).
TESSERA_API Tensor operator-(const Scalar& a, const Tensor& b);
/// Replaces a by ops::sub(a, b). Returns a.
TESSERA_API const Tensor& operator-=(const Tensor& a, const Tensor& b);
/// Replaces a by ops::sub(a, b). Returns a.
TESSERA_API const Tensor& operator-=(const Tensor& a, const Scalar& b);
/// Returns ops::mul(a, b).
TESSERA_API Tensor operator*(const Tensor& a, const Tensor& b);
/// Returns ops::mul(a, b).
TESSERA_API Tensor operator*(const Tensor& a, const Scalar& b);
/// Returns ops::mul(a, b).
TESSERA_API Tensor operator*(const Scalar& a, const Tensor& b);
/// Replaces a by ops::mul(a, b). Returns a.
TESSERA_API const Tensor& operator*=(const Tensor& a, const Tensor& b);
/// Replaces a by ops::mul(a, b). Returns a.
TESSERA_API const Tensor& operator*=(const Tensor& a, const Scalar& b);
/// Returns ops::div(a, b).
TESSERA_API Tensor operator/(const Tensor& a, const Tensor& b);
/// Returns ops::div(a, b).
TESSERA_API Tensor operator/(const Tensor& a, const Scalar& b);
/// Returns ops::div(a, b).
TESSERA_API Tensor operator/(const Scalar& a, const Tensor& b);
/// Replaces a by ops::div(a, b). Returns a.
TESSERA_API const Tensor& operator/=(const Tensor& a, const Tensor& b);
/// Replaces a by ops::div(a, b). Returns a.
TESSERA_API const Tensor& operator/=(const Tensor& a, const Scalar& b);
/// Returns ops::neg(x).
TESSERA_API Tensor operator-(const Tensor& x);

/// Returns ops::eq(a, b).
TESSERA_API Mask operator==(const Tensor& a, const Tensor& b);
/// Returns ops::eq(a, b).
TESSERA_API Mask operator==(const Tensor& a, const Scalar& b);
/// Returns ops::eq(b, a).
TESSERA_API Mask operator==(const Scalar& a, const Tensor& b);
/// Returns ops::ne(a, b).
TESSERA_API Mask operator!=(const Tensor& a, const Tensor& b);
/// Returns ops::ne(a, b).
TESSERA_API Mask operator!=(const Tensor& a, const Scalar& b);
/// Returns ops::ne(b, a).
TESSERA_API Mask operator!=(const Scalar& a, const Tensor& b);
/// Returns ops::lt(a, b).
TESSERA_API Mask operator<(const Tensor& a, const Tensor& b);
/// Returns ops::lt(a, b).
TESSERA_API Mask operator<(const Tensor& a, const Scalar& b);
/// Returns ops::gt(b, a).
TESSERA_API Mask operator<(const Scalar& a, const Tensor& b);
/// Returns ops::le(a, b).
TESSERA_API Mask operator<=(const Tensor& a, const Tensor& b);
/// Returns ops::le(a, b).
TESSERA_API Mask operator<=(const Tensor& a, const Scalar& b);
/// Returns ops::ge(b, a).
TESSERA_API Mask operator<=(const Scalar& a, const Tensor& b);
/// Returns ops::gt(a, b).
TESSERA_API Mask operator>(const Tensor& a, const Tensor& b);
/// Returns ops::gt(a, b).
TESSERA_API Mask operator>(const Tensor& a, const Scalar& b);
/// Returns ops::lt(b, a).
TESSERA_API Mask operator>(const Scalar& a, const Tensor& b);
/// Returns ops::ge(a, b).
TESSERA_API Mask operator>=(const Tensor& a, const Tensor& b);
/// Returns ops::ge(a, b).
TESSERA_API Mask operator>=(const Tensor& a, const Scalar& b);
/// Returns ops::le(b, a).
TESSERA_API Mask operator>=(const Scalar& a, const Tensor& b);

}  // namespace tessera::tensor
