// Arithmetic of tensors and numbers, element by element. Shapes broadcast as in NumPy; dtypes promote by promote.h. A
// trailing underscore changes the first tensor in place, `_out` writes into a given tensor; both refuse a tensor of
// another shape or dtype than the result's, and one that overlaps an input without being it.
#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Attributes of an operator with one number.
struct ScalarAttributes {
  tensor::Scalar value;  ///< the number
  TESSERA_ATTRIBUTES(value)
};
/// Attributes of clamp.
struct ClampAttributes {
  tensor::Scalar low;   ///< least value
  tensor::Scalar high;  ///< greatest value
  TESSERA_ATTRIBUTES(low, high)
};

/// a + b.
TESSERA_API Tensor add(const Tensor& a, const Tensor& b);
/// add, in place in a.
TESSERA_API void add_(const Tensor& a, const Tensor& b);
/// add, into `out`.
TESSERA_API void add_out(const Tensor& out, const Tensor& a, const Tensor& b);
/// add of a number.
TESSERA_API Tensor add(const Tensor& a, const Scalar& b);
/// add of a number, in place.
TESSERA_API void add_(const Tensor& a, const Scalar& b);
/// add of a number, into `out`.
TESSERA_API void add_out(const Tensor& out, const Tensor& a, const Scalar& b);
/// a - b.
TESSERA_API Tensor sub(const Tensor& a, const Tensor& b);
/// sub, in place in a.
TESSERA_API void sub_(const Tensor& a, const Tensor& b);
/// sub, into `out`.
TESSERA_API void sub_out(const Tensor& out, const Tensor& a, const Tensor& b);
/// sub of a number.
TESSERA_API Tensor sub(const Tensor& a, const Scalar& b);
/// sub of a number, in place.
TESSERA_API void sub_(const Tensor& a, const Scalar& b);
/// sub of a number, into `out`.
TESSERA_API void sub_out(const Tensor& out, const Tensor& a, const Scalar& b);
/// sub, the number first.
TESSERA_API Tensor sub(const Scalar& a, const Tensor& b);
/// a * b.
TESSERA_API Tensor mul(const Tensor& a, const Tensor& b);
/// mul, in place in a.
TESSERA_API void mul_(const Tensor& a, const Tensor& b);
/// mul, into `out`.
TESSERA_API void mul_out(const Tensor& out, const Tensor& a, const Tensor& b);
/// mul of a number.
TESSERA_API Tensor mul(const Tensor& a, const Scalar& b);
/// mul of a number, in place.
TESSERA_API void mul_(const Tensor& a, const Scalar& b);
/// mul of a number, into `out`.
TESSERA_API void mul_out(const Tensor& out, const Tensor& a, const Scalar& b);
/// a / b; of integers in f32.
TESSERA_API Tensor div(const Tensor& a, const Tensor& b);
/// div, in place in a.
TESSERA_API void div_(const Tensor& a, const Tensor& b);
/// div, into `out`.
TESSERA_API void div_out(const Tensor& out, const Tensor& a, const Tensor& b);
/// div of a number.
TESSERA_API Tensor div(const Tensor& a, const Scalar& b);
/// div of a number, in place.
TESSERA_API void div_(const Tensor& a, const Scalar& b);
/// div of a number, into `out`.
TESSERA_API void div_out(const Tensor& out, const Tensor& a, const Scalar& b);
/// div, the number first.
TESSERA_API Tensor div(const Scalar& a, const Tensor& b);
/// a to the power of b.
TESSERA_API Tensor pow(const Tensor& a, const Tensor& b);
/// pow, in place in a.
TESSERA_API void pow_(const Tensor& a, const Tensor& b);
/// pow, into `out`.
TESSERA_API void pow_out(const Tensor& out, const Tensor& a, const Tensor& b);
/// pow of a number.
TESSERA_API Tensor pow(const Tensor& a, const Scalar& b);
/// pow of a number, in place.
TESSERA_API void pow_(const Tensor& a, const Scalar& b);
/// pow of a number, into `out`.
TESSERA_API void pow_out(const Tensor& out, const Tensor& a, const Scalar& b);
/// pow, the number first.
TESSERA_API Tensor pow(const Scalar& a, const Tensor& b);
/// The lesser; nan when one of them is.
TESSERA_API Tensor minimum(const Tensor& a, const Tensor& b);
/// minimum, in place in a.
TESSERA_API void minimum_(const Tensor& a, const Tensor& b);
/// minimum, into `out`.
TESSERA_API void minimum_out(const Tensor& out, const Tensor& a, const Tensor& b);
/// The greater; nan when one of them is.
TESSERA_API Tensor maximum(const Tensor& a, const Tensor& b);
/// maximum, in place in a.
TESSERA_API void maximum_(const Tensor& a, const Tensor& b);
/// maximum, into `out`.
TESSERA_API void maximum_out(const Tensor& out, const Tensor& a, const Tensor& b);
/// The quotient, rounded down; of integers, 0 where b is 0.
TESSERA_API Tensor floor_divide(const Tensor& a, const Tensor& b);
/// floor_divide, in place in a.
TESSERA_API void floor_divide_(const Tensor& a, const Tensor& b);
/// floor_divide, into `out`.
TESSERA_API void floor_divide_out(const Tensor& out, const Tensor& a, const Tensor& b);
/// floor_divide of a number.
TESSERA_API Tensor floor_divide(const Tensor& a, const Scalar& b);
/// floor_divide of a number, in place.
TESSERA_API void floor_divide_(const Tensor& a, const Scalar& b);
/// floor_divide of a number, into `out`.
TESSERA_API void floor_divide_out(const Tensor& out, const Tensor& a, const Scalar& b);
/// What is left of a by floor_divide, of the sign of b; of integers, 0 where b is 0.
TESSERA_API Tensor remainder(const Tensor& a, const Tensor& b);
/// remainder, in place in a.
TESSERA_API void remainder_(const Tensor& a, const Tensor& b);
/// remainder, into `out`.
TESSERA_API void remainder_out(const Tensor& out, const Tensor& a, const Tensor& b);
/// remainder of a number.
TESSERA_API Tensor remainder(const Tensor& a, const Scalar& b);
/// remainder of a number, in place.
TESSERA_API void remainder_(const Tensor& a, const Scalar& b);
/// remainder of a number, into `out`.
TESSERA_API void remainder_out(const Tensor& out, const Tensor& a, const Scalar& b);
/// x, but at least `low` and at most `high`; nan stays.
TESSERA_API Tensor clamp(const Tensor& x, const Scalar& low, const Scalar& high);
/// clamp, in place.
TESSERA_API void clamp_(const Tensor& x, const Scalar& low, const Scalar& high);
/// x, but at least `low`.
TESSERA_API Tensor clamp_min(const Tensor& x, const Scalar& low);
/// x, but at most `high`.
TESSERA_API Tensor clamp_max(const Tensor& x, const Scalar& high);
/// a where `mask` (bool) is true, else b.
TESSERA_API Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b);
/// Likewise, with a number where it is false.
TESSERA_API Tensor where(const Tensor& mask, const Tensor& a, const Scalar& b);
/// Likewise, with a number where it is true.
TESSERA_API Tensor where(const Tensor& mask, const Scalar& a, const Tensor& b);
/// a + weight * (b - a).
TESSERA_API Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
/// Likewise, with one weight.
TESSERA_API Tensor lerp(const Tensor& a, const Tensor& b, const Scalar& weight);
/// lerp with one weight, in place in a.
TESSERA_API void lerp_(const Tensor& a, const Tensor& b, const Scalar& weight);
/// x + value * a * b.
TESSERA_API Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value = 1);
/// addcmul, in place in x.
TESSERA_API void addcmul_(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value = 1);
/// x + value * a / b.
TESSERA_API Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value = 1);
/// addcdiv, in place in x.
TESSERA_API void addcdiv_(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value = 1);

}  // namespace tessera::ops

namespace tessera::tensor {

/// ops::add.
TESSERA_API Tensor operator+(const Tensor& a, const Tensor& b);
/// ops::add.
TESSERA_API Tensor operator+(const Tensor& a, const Scalar& b);
/// ops::add.
TESSERA_API Tensor operator+(const Scalar& a, const Tensor& b);
/// ops::sub.
TESSERA_API Tensor operator-(const Tensor& a, const Tensor& b);
/// ops::sub.
TESSERA_API Tensor operator-(const Tensor& a, const Scalar& b);
/// ops::sub.
TESSERA_API Tensor operator-(const Scalar& a, const Tensor& b);
/// ops::mul.
TESSERA_API Tensor operator*(const Tensor& a, const Tensor& b);
/// ops::mul.
TESSERA_API Tensor operator*(const Tensor& a, const Scalar& b);
/// ops::mul.
TESSERA_API Tensor operator*(const Scalar& a, const Tensor& b);
/// ops::div.
TESSERA_API Tensor operator/(const Tensor& a, const Tensor& b);
/// ops::div.
TESSERA_API Tensor operator/(const Tensor& a, const Scalar& b);
/// ops::div.
TESSERA_API Tensor operator/(const Scalar& a, const Tensor& b);
/// ops::neg.
TESSERA_API Tensor operator-(const Tensor& x);

}  // namespace tessera::tensor
