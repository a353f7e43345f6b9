// Arithmetic of tensors and numbers, element by element. Shapes broadcast as in NumPy; promote.h promotes dtypes. A
// trailing underscore changes the first tensor in place; add(a, b, {.out = t}) writes to t. Both throw InvalidArgument
// if that tensor differs from the result in shape or dtype, or if it overlaps an input without being it.
#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Attributes of the operators that take a number.
struct ScalarAttributes {
  tensor::Scalar value;  ///< value of the number operand
  TESSERA_ATTRIBUTES(value)
};
/// Attributes of `clamp`.
struct ClampAttributes {
  tensor::Scalar low;   ///< lower bound
  tensor::Scalar high;  ///< upper bound
  TESSERA_ATTRIBUTES(low, high)
};

/// Returns a + b.
TESSERA_API Tensor add(const Tensor& a, const Tensor& b);
/// Replaces a by add(a, b).
TESSERA_API void add_(const Tensor& a, const Tensor& b);
/// Writes add(a, b) to `options.out` and returns it.
TESSERA_API Tensor add(const Tensor& a, const Tensor& b, const ResultOptions& options);
/// Returns add(a, b) for a number b.
TESSERA_API Tensor add(const Tensor& a, const Scalar& b);
/// Replaces a by add(a, b) for a number b.
TESSERA_API void add_(const Tensor& a, const Scalar& b);
/// Writes add(a, b) to `options.out` and returns it for a number b.
TESSERA_API Tensor add(const Tensor& a, const Scalar& b, const ResultOptions& options);
/// Returns a - b.
TESSERA_API Tensor sub(const Tensor& a, const Tensor& b);
/// Replaces a by sub(a, b).
TESSERA_API void sub_(const Tensor& a, const Tensor& b);
/// Writes sub(a, b) to `options.out` and returns it.
TESSERA_API Tensor sub(const Tensor& a, const Tensor& b, const ResultOptions& options);
/// Returns sub(a, b) for a number b.
TESSERA_API Tensor sub(const Tensor& a, const Scalar& b);
/// Replaces a by sub(a, b) for a number b.
TESSERA_API void sub_(const Tensor& a, const Scalar& b);
/// Writes sub(a, b) to `options.out` and returns it for a number b.
TESSERA_API Tensor sub(const Tensor& a, const Scalar& b, const ResultOptions& options);
/// Returns sub(a, b) for a number a.
TESSERA_API Tensor sub(const Scalar& a, const Tensor& b);
/// Returns a * b.
TESSERA_API Tensor mul(const Tensor& a, const Tensor& b);
/// Replaces a by mul(a, b).
TESSERA_API void mul_(const Tensor& a, const Tensor& b);
/// Writes mul(a, b) to `options.out` and returns it.
TESSERA_API Tensor mul(const Tensor& a, const Tensor& b, const ResultOptions& options);
/// Returns mul(a, b) for a number b.
TESSERA_API Tensor mul(const Tensor& a, const Scalar& b);
/// Replaces a by mul(a, b) for a number b.
TESSERA_API void mul_(const Tensor& a, const Scalar& b);
/// Writes mul(a, b) to `options.out` and returns it for a number b.
TESSERA_API Tensor mul(const Tensor& a, const Scalar& b, const ResultOptions& options);
/// Returns a / b. The quotient of integers is f32.
TESSERA_API Tensor div(const Tensor& a, const Tensor& b);
/// Replaces a by div(a, b).
TESSERA_API void div_(const Tensor& a, const Tensor& b);
/// Writes div(a, b) to `options.out` and returns it.
TESSERA_API Tensor div(const Tensor& a, const Tensor& b, const ResultOptions& options);
/// Returns div(a, b) for a number b.
TESSERA_API Tensor div(const Tensor& a, const Scalar& b);
/// Replaces a by div(a, b) for a number b.
TESSERA_API void div_(const Tensor& a, const Scalar& b);
/// Writes div(a, b) to `options.out` and returns it for a number b.
TESSERA_API Tensor div(const Tensor& a, const Scalar& b, const ResultOptions& options);
/// Returns div(a, b) for a number a.
TESSERA_API Tensor div(const Scalar& a, const Tensor& b);
/// Returns a to the power of b.
TESSERA_API Tensor pow(const Tensor& a, const Tensor& b);
/// Replaces a by pow(a, b).
TESSERA_API void pow_(const Tensor& a, const Tensor& b);
/// Writes pow(a, b) to `options.out` and returns it.
TESSERA_API Tensor pow(const Tensor& a, const Tensor& b, const ResultOptions& options);
/// Returns pow(a, b) for a number b.
TESSERA_API Tensor pow(const Tensor& a, const Scalar& b);
/// Replaces a by pow(a, b) for a number b.
TESSERA_API void pow_(const Tensor& a, const Scalar& b);
/// Writes pow(a, b) to `options.out` and returns it for a number b.
TESSERA_API Tensor pow(const Tensor& a, const Scalar& b, const ResultOptions& options);
/// Returns pow(a, b) for a number a.
TESSERA_API Tensor pow(const Scalar& a, const Tensor& b);
/// Returns the lesser of a and b; nan if one of them is nan.
TESSERA_API Tensor minimum(const Tensor& a, const Tensor& b);
/// Replaces a by minimum(a, b).
TESSERA_API void minimum_(const Tensor& a, const Tensor& b);
/// Writes minimum(a, b) to `options.out` and returns it.
TESSERA_API Tensor minimum(const Tensor& a, const Tensor& b, const ResultOptions& options);
/// Returns the greater of a and b; nan if one of them is nan.
TESSERA_API Tensor maximum(const Tensor& a, const Tensor& b);
/// Replaces a by maximum(a, b).
TESSERA_API void maximum_(const Tensor& a, const Tensor& b);
/// Writes maximum(a, b) to `options.out` and returns it.
TESSERA_API Tensor maximum(const Tensor& a, const Tensor& b, const ResultOptions& options);
/// Returns the quotient, rounded down. For integers, the result is 0 if b is 0.
TESSERA_API Tensor floor_divide(const Tensor& a, const Tensor& b);
/// Replaces a by floor_divide(a, b).
TESSERA_API void floor_divide_(const Tensor& a, const Tensor& b);
/// Writes floor_divide(a, b) to `options.out` and returns it.
TESSERA_API Tensor floor_divide(const Tensor& a, const Tensor& b, const ResultOptions& options);
/// Returns floor_divide(a, b) for a number b.
TESSERA_API Tensor floor_divide(const Tensor& a, const Scalar& b);
/// Replaces a by floor_divide(a, b) for a number b.
TESSERA_API void floor_divide_(const Tensor& a, const Scalar& b);
/// Writes floor_divide(a, b) to `options.out` and returns it for a number b.
TESSERA_API Tensor floor_divide(const Tensor& a, const Scalar& b, const ResultOptions& options);
/// Returns a - b * floor_divide(a, b), with the sign of b. For integers, the result is 0 if b is 0.
TESSERA_API Tensor remainder(const Tensor& a, const Tensor& b);
/// Replaces a by remainder(a, b).
TESSERA_API void remainder_(const Tensor& a, const Tensor& b);
/// Writes remainder(a, b) to `options.out` and returns it.
TESSERA_API Tensor remainder(const Tensor& a, const Tensor& b, const ResultOptions& options);
/// Returns remainder(a, b) for a number b.
TESSERA_API Tensor remainder(const Tensor& a, const Scalar& b);
/// Replaces a by remainder(a, b) for a number b.
TESSERA_API void remainder_(const Tensor& a, const Scalar& b);
/// Writes remainder(a, b) to `options.out` and returns it for a number b.
TESSERA_API Tensor remainder(const Tensor& a, const Scalar& b, const ResultOptions& options);
/// Returns x limited to [low, high]; nan remains nan.
TESSERA_API Tensor clamp(const Tensor& x, const Scalar& low, const Scalar& high);
/// Replaces x by clamp(x, low, high).
TESSERA_API void clamp_(const Tensor& x, const Scalar& low, const Scalar& high);
/// Returns x, but at least `low`.
TESSERA_API Tensor clamp_min(const Tensor& x, const Scalar& low);
/// Returns x, but at most `high`.
TESSERA_API Tensor clamp_max(const Tensor& x, const Scalar& high);
/// Returns a where `mask` (bool) is true, otherwise b.
TESSERA_API Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b);
/// Returns a where `mask` (bool) is true, otherwise the number b.
TESSERA_API Tensor where(const Tensor& mask, const Tensor& a, const Scalar& b);
/// Returns the number a where `mask` (bool) is true, otherwise b.
TESSERA_API Tensor where(const Tensor& mask, const Scalar& a, const Tensor& b);
/// Returns a + weight * (b - a).
TESSERA_API Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
/// Returns a + weight * (b - a), with one weight for all elements.
TESSERA_API Tensor lerp(const Tensor& a, const Tensor& b, const Scalar& weight);
/// Replaces a by lerp(a, b, weight).
TESSERA_API void lerp_(const Tensor& a, const Tensor& b, const Scalar& weight);
/// Returns x + value * a * b.
TESSERA_API Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value = 1);
/// Replaces x by addcmul(x, a, b, value).
TESSERA_API void addcmul_(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value = 1);
/// Returns x + value * a / b.
TESSERA_API Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value = 1);
/// Replaces x by addcdiv(x, a, b, value).
TESSERA_API void addcdiv_(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value = 1);

}  // namespace tessera::ops
