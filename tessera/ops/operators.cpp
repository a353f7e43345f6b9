// The operators of C++ on tensors.
#include "tessera/tensor/operators.h"

#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"

namespace tessera::tensor {

Tensor operator+(const Tensor& a, const Tensor& b) { return ops::add(a, b); }
Tensor operator+(const Tensor& a, const Scalar& b) { return ops::add(a, b); }
Tensor operator+(const Scalar& a, const Tensor& b) { return ops::add(b, a); }
const Tensor& operator+=(const Tensor& a, const Tensor& b) {
  ops::add_(a, b);
  return a;
}
const Tensor& operator+=(const Tensor& a, const Scalar& b) {
  ops::add_(a, b);
  return a;
}

Tensor operator-(const Tensor& a, const Tensor& b) { return ops::sub(a, b); }
Tensor operator-(const Tensor& a, const Scalar& b) { return ops::sub(a, b); }
Tensor operator-(const Scalar& a, const Tensor& b) { return ops::sub(a, b); }
const Tensor& operator-=(const Tensor& a, const Tensor& b) {
  ops::sub_(a, b);
  return a;
}
const Tensor& operator-=(const Tensor& a, const Scalar& b) {
  ops::sub_(a, b);
  return a;
}

Tensor operator*(const Tensor& a, const Tensor& b) { return ops::mul(a, b); }
Tensor operator*(const Tensor& a, const Scalar& b) { return ops::mul(a, b); }
Tensor operator*(const Scalar& a, const Tensor& b) { return ops::mul(b, a); }
const Tensor& operator*=(const Tensor& a, const Tensor& b) {
  ops::mul_(a, b);
  return a;
}
const Tensor& operator*=(const Tensor& a, const Scalar& b) {
  ops::mul_(a, b);
  return a;
}

Tensor operator/(const Tensor& a, const Tensor& b) { return ops::div(a, b); }
Tensor operator/(const Tensor& a, const Scalar& b) { return ops::div(a, b); }
Tensor operator/(const Scalar& a, const Tensor& b) { return ops::div(a, b); }
const Tensor& operator/=(const Tensor& a, const Tensor& b) {
  ops::div_(a, b);
  return a;
}
const Tensor& operator/=(const Tensor& a, const Scalar& b) {
  ops::div_(a, b);
  return a;
}

Tensor operator-(const Tensor& x) { return ops::neg(x); }

Mask operator==(const Tensor& a, const Tensor& b) { return Mask(ops::eq(a, b)); }
Mask operator==(const Tensor& a, const Scalar& b) { return Mask(ops::eq(a, b)); }
Mask operator==(const Scalar& a, const Tensor& b) { return Mask(ops::eq(b, a)); }
Mask operator!=(const Tensor& a, const Tensor& b) { return Mask(ops::ne(a, b)); }
Mask operator!=(const Tensor& a, const Scalar& b) { return Mask(ops::ne(a, b)); }
Mask operator!=(const Scalar& a, const Tensor& b) { return Mask(ops::ne(b, a)); }
Mask operator<(const Tensor& a, const Tensor& b) { return Mask(ops::lt(a, b)); }
Mask operator<(const Tensor& a, const Scalar& b) { return Mask(ops::lt(a, b)); }
Mask operator<(const Scalar& a, const Tensor& b) { return Mask(ops::gt(b, a)); }
Mask operator<=(const Tensor& a, const Tensor& b) { return Mask(ops::le(a, b)); }
Mask operator<=(const Tensor& a, const Scalar& b) { return Mask(ops::le(a, b)); }
Mask operator<=(const Scalar& a, const Tensor& b) { return Mask(ops::ge(b, a)); }
Mask operator>(const Tensor& a, const Tensor& b) { return Mask(ops::gt(a, b)); }
Mask operator>(const Tensor& a, const Scalar& b) { return Mask(ops::gt(a, b)); }
Mask operator>(const Scalar& a, const Tensor& b) { return Mask(ops::lt(b, a)); }
Mask operator>=(const Tensor& a, const Tensor& b) { return Mask(ops::ge(a, b)); }
Mask operator>=(const Tensor& a, const Scalar& b) { return Mask(ops::ge(a, b)); }
Mask operator>=(const Scalar& a, const Tensor& b) { return Mask(ops::le(b, a)); }

}  // namespace tessera::tensor
