// Arithmetic and functions of complex numbers, with the names of those of std::complex. Functions compute in double and
// round once.
#pragma once

#include <cmath>

#include "tessera/ops/cuda/elements.cuh"

namespace tessera::ops::cuda {

using C64 = Complex<float>;
using Wide = Complex<double>;

__host__ __device__ inline C64 operator+(C64 a, C64 b) { return {a.re + b.re, a.im + b.im}; }
__host__ __device__ inline C64 operator-(C64 a, C64 b) { return {a.re - b.re, a.im - b.im}; }
__host__ __device__ inline C64 operator-(C64 a) { return {-a.re, -a.im}; }
__host__ __device__ inline C64 operator*(C64 a, C64 b) {
#ifdef __CUDA_ARCH__
  return {__fsub_rn(__fmul_rn(a.re, b.re), __fmul_rn(a.im, b.im)),
          __fadd_rn(__fmul_rn(a.re, b.im), __fmul_rn(a.im, b.re))};
#else
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
#endif
}
__host__ __device__ inline bool operator==(C64 a, C64 b) { return a.re == b.re && a.im == b.im; }
__host__ __device__ inline bool operator!=(C64 a, C64 b) { return !(a == b); }

namespace complex {

__device__ inline Wide widen(C64 x) { return {x.re, x.im}; }
__device__ inline C64 narrow(Wide x) { return {static_cast<float>(x.re), static_cast<float>(x.im)}; }

// A part that is 0 remains 0 if the other is infinite.
__device__ __noinline__ Wide exp(Wide x) {
  const double size = ::exp(x.re);
  if (x.im == 0) return {size, x.im};
  double sine;
  double cosine;
  ::sincos(x.im, &sine, &cosine);
  return {size * cosine, size * sine};
}
__device__ __noinline__ Wide log(Wide x) { return {::log(::hypot(x.re, x.im)), ::atan2(x.im, x.re)}; }
__device__ __noinline__ Wide sqrt(Wide x) {
  const double size = ::hypot(x.re, x.im);
  if (size == 0) return {0, x.im};
  const double large = ::sqrt((size + ::fabs(x.re)) * 0.5);
  const double small = ::fabs(x.im) / (2 * large);
  return x.re >= 0 ? Wide(large, ::copysign(small, x.im)) : Wide(small, ::copysign(large, x.im));
}
// The hyperbolic tangent by exp(-2 |re|), which does not overflow.
__device__ __noinline__ Wide tanh(Wide x) {
  const double decay = ::exp(-2 * ::fabs(x.re));
  double sine;
  double cosine;
  ::sincos(2 * x.im, &sine, &cosine);
  const double below = 1 + decay * (2 * cosine + decay);
  return {::copysign(-::expm1(-4 * ::fabs(x.re)) / below, x.re), 2 * decay * sine / below};
}
// sin of x; cos of x is sin of x + pi / 2.
__device__ __noinline__ Wide sine_of(Wide x, bool is_cosine) {
  double sine;
  double cosine;
  ::sincos(x.re, &sine, &cosine);
  const double even = ::cosh(x.im);
  const double odd = ::sinh(x.im);
  return is_cosine ? Wide(cosine * even, -sine * odd) : Wide(sine * even, cosine * odd);
}
__device__ inline Wide multiply(Wide a, Wide b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

}  // namespace complex

__device__ inline C64 operator/(C64 a, C64 b) {
  const Wide to = complex::multiply(complex::widen(a), {b.re, -b.im});
  const double size = double{b.re} * b.re + double{b.im} * b.im;
  return complex::narrow({to.re / size, to.im / size});
}
__device__ inline float abs(C64 x) { return hypotf(x.re, x.im); }
__device__ inline C64 conj(C64 x) { return {x.re, -x.im}; }
__device__ inline C64 exp(C64 x) { return complex::narrow(complex::exp(complex::widen(x))); }
__device__ inline C64 log(C64 x) { return complex::narrow(complex::log(complex::widen(x))); }
__device__ inline C64 sqrt(C64 x) { return complex::narrow(complex::sqrt(complex::widen(x))); }
__device__ inline C64 sin(C64 x) { return complex::narrow(complex::sine_of(complex::widen(x), false)); }
__device__ inline C64 cos(C64 x) { return complex::narrow(complex::sine_of(complex::widen(x), true)); }
__device__ inline C64 tanh(C64 x) { return complex::narrow(complex::tanh(complex::widen(x))); }
__device__ inline C64 pow(C64 a, C64 b) {
  if (a == C64(0)) return a;
  return complex::narrow(complex::exp(complex::multiply(complex::widen(b), complex::log(complex::widen(a)))));
}

}  // namespace tessera::ops::cuda
