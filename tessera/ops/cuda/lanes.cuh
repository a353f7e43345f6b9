// The functions of Highway that formulas use, for one value per thread: a "vector" is a number, a mask is a bool. With
// this header, the formulas of ops/detail/*-inl.h and pointwise/detail/formulas-inl.h compile for devices.
//
// Each function rounds as the host does: a product and a sum are only fused in MulAdd() and its variants. Functions of
// the math library have its accuracy (1 or 2 ulp), not the bits of the host.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#define HWY_NAMESPACE N_CUDA
#define HWY_INLINE __device__ __forceinline__
#define HWY_ATTR
#define HWY_BEFORE_NAMESPACE() static_assert(true, "")
#define HWY_AFTER_NAMESPACE() static_assert(true, "")

namespace hwy::N_CUDA {

/// Describes a lane of T.
template <class T>
struct Lane {
  using Type = T;
};
/// Describes a lane of float whose result is rounded to bf16. Formulas may be less accurate.
struct NarrowLane {
  using Type = float;
};
template <class D>
using TFromD = typename D::Type;
template <class D>
using Vec = typename D::Type;
template <class D>
using RebindToSigned = Lane<std::conditional_t<sizeof(TFromD<D>) == 4, std::int32_t, std::int64_t>>;

template <class D>
__device__ constexpr std::size_t MaxLanes(D) {
  return 1;
}
template <class D>
HWY_INLINE Vec<D> Set(D, TFromD<D> value) {
  return value;
}
template <class D>
HWY_INLINE Vec<D> Zero(D) {
  return 0;
}
template <class D>
HWY_INLINE Vec<D> Inf(D) {
  return static_cast<Vec<D>>(__int_as_float(0x7f800000));
}
template <class D>
HWY_INLINE Vec<D> NaN(D) {
  return static_cast<Vec<D>>(__int_as_float(0x7fffffff));
}
template <class D, class T>
HWY_INLINE Vec<D> Load(D, const T* from) {
  return *from;
}
template <class V, class D, class T>
HWY_INLINE void Store(V value, D, T* to) {
  *to = value;
}
template <class D, class V>
HWY_INLINE Vec<D> BitCast(D, V value) {
  static_assert(sizeof(Vec<D>) == sizeof(V), "of one size");
  Vec<D> result;
  memcpy(&result, &value, sizeof(V));
  return result;
}

HWY_INLINE std::int32_t Add(std::int32_t a, std::int32_t b) { return a + b; }
HWY_INLINE float Add(float a, float b) { return __fadd_rn(a, b); }
HWY_INLINE double Add(double a, double b) { return __dadd_rn(a, b); }
HWY_INLINE float Sub(float a, float b) { return __fsub_rn(a, b); }
HWY_INLINE double Sub(double a, double b) { return __dsub_rn(a, b); }
HWY_INLINE float Mul(float a, float b) { return __fmul_rn(a, b); }
HWY_INLINE double Mul(double a, double b) { return __dmul_rn(a, b); }
HWY_INLINE float Div(float a, float b) { return __fdiv_rn(a, b); }
HWY_INLINE double Div(double a, double b) { return __ddiv_rn(a, b); }
HWY_INLINE float MulAdd(float a, float b, float c) { return __fmaf_rn(a, b, c); }
HWY_INLINE double MulAdd(double a, double b, double c) { return __fma_rn(a, b, c); }
HWY_INLINE float Sqrt(float x) { return __fsqrt_rn(x); }
HWY_INLINE double Sqrt(double x) { return __dsqrt_rn(x); }
HWY_INLINE float Min(float a, float b) { return fminf(a, b); }
HWY_INLINE double Min(double a, double b) { return fmin(a, b); }
HWY_INLINE float Max(float a, float b) { return fmaxf(a, b); }
HWY_INLINE double Max(double a, double b) { return fmax(a, b); }
HWY_INLINE float Floor(float x) { return floorf(x); }
HWY_INLINE double Floor(double x) { return floor(x); }
HWY_INLINE float Ceil(float x) { return ceilf(x); }
HWY_INLINE double Ceil(double x) { return ceil(x); }
HWY_INLINE float Round(float x) { return rintf(x); }
HWY_INLINE double Round(double x) { return rint(x); }
HWY_INLINE float CopySign(float x, float sign) { return copysignf(x, sign); }
HWY_INLINE double CopySign(double x, double sign) { return copysign(x, sign); }
HWY_INLINE float Abs(float x) { return fabsf(x); }
HWY_INLINE double Abs(double x) { return fabs(x); }

template <class V>
HWY_INLINE V Neg(V x) {
  return -x;
}
template <class V>
HWY_INLINE V NegMulAdd(V a, V b, V c) {
  return MulAdd(-a, b, c);
}
template <int kBits, class V>
HWY_INLINE V ShiftLeft(V value) {
  return static_cast<V>(static_cast<std::make_unsigned_t<V>>(value) << kBits);
}

template <class V>
HWY_INLINE bool Eq(V a, V b) {
  return a == b;
}
template <class V>
HWY_INLINE bool Ne(V a, V b) {
  return a != b;
}
template <class V>
HWY_INLINE bool Lt(V a, V b) {
  return a < b;
}
template <class V>
HWY_INLINE bool Le(V a, V b) {
  return a <= b;
}
template <class V>
HWY_INLINE bool Gt(V a, V b) {
  return a > b;
}
template <class V>
HWY_INLINE bool Ge(V a, V b) {
  return a >= b;
}
HWY_INLINE bool Not(bool a) { return !a; }
HWY_INLINE bool And(bool a, bool b) { return a && b; }
HWY_INLINE bool Or(bool a, bool b) { return a || b; }
HWY_INLINE bool Xor(bool a, bool b) { return a != b; }
template <class D>
HWY_INLINE bool AllTrue(D, bool mask) {
  return mask;
}
template <class V>
HWY_INLINE V IfThenElse(bool mask, V yes, V no) {
  return mask ? yes : no;
}
template <class V>
HWY_INLINE V IfThenElseZero(bool mask, V yes) {
  return mask ? yes : V(0);
}
template <class V>
HWY_INLINE V IfThenZeroElse(bool mask, V no) {
  return mask ? V(0) : no;
}

template <class D>
HWY_INLINE float Exp(D, float x) {
  return expf(x);
}
template <class D>
HWY_INLINE double Exp(D, double x) {
  return exp(x);
}
template <class D>
HWY_INLINE float Log(D, float x) {
  return logf(x);
}
template <class D>
HWY_INLINE double Log(D, double x) {
  return log(x);
}
template <class D>
HWY_INLINE float Log1p(D, float x) {
  return log1pf(x);
}
template <class D>
HWY_INLINE double Log1p(D, double x) {
  return log1p(x);
}
template <class D>
HWY_INLINE float Tanh(D, float x) {
  return tanhf(x);
}
template <class D>
HWY_INLINE double Tanh(D, double x) {
  return tanh(x);
}
// The reduction of large arguments makes these long.
template <class V>
__device__ __noinline__ V sine(V x) {
  return std::sin(x);
}
template <class V>
__device__ __noinline__ V cosine(V x) {
  return std::cos(x);
}
template <class D, class V>
HWY_INLINE V Sin(D, V x) {
  return sine(x);
}
template <class D, class V>
HWY_INLINE V Cos(D, V x) {
  return cosine(x);
}

}  // namespace hwy::N_CUDA

namespace tessera::ops::N_CUDA {

using hwy::N_CUDA::NarrowLane;

HWY_INLINE float approximate_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// Returns a / b for b in [2^-120, 2^120], accurate to 1 ulp.
template <class D>
HWY_INLINE float quotient_of(D, float a, float b) {
  const float inverse = approximate_reciprocal(b);
  const float quotient = __fmul_rn(a, inverse);
  return __fmaf_rn(__fmaf_rn(-b, quotient, a), inverse, quotient);
}
HWY_INLINE float quotient_of(NarrowLane, float a, float b) { return a * approximate_reciprocal(b); }
template <class D>
HWY_INLINE double quotient_of(D, double a, double b) {
  return a / b;
}
HWY_INLINE float approximate_power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// Returns exp(x) with an error of at most 3 ulp; results below the least normal number are 0. The power of 2 is
/// corrected by the rounding error of its argument.
HWY_INLINE float exp_of_not_positive(hwy::N_CUDA::Lane<float>, float x) {
  constexpr float kScale = 1.44269502F;    // 1 / ln 2
  constexpr float kRest = 1.92596299e-8F;  // what is missing there
  const float n = __fmul_rn(x, kScale);
  const float rest = __fmaf_rn(x, kRest, __fmaf_rn(x, kScale, -n));
  const float y = approximate_power_of_2(n);
  return x < -87.3F ? 0 : __fmaf_rn(y, __fmul_rn(rest, 0.693147182F), y);
}
/// Returns exp(x) with a relative error of 1e-5.
HWY_INLINE float exp_of_not_positive(NarrowLane, float x) { return approximate_power_of_2(x * 1.44269502F); }

/// Applies f, which is long or rare, and therefore not inlined.
template <class D, class V, class F>
__device__ __noinline__ V lane_by_lane(D, V x, F f) {
  return f(x);
}
template <class D, class V, class F>
__device__ __noinline__ V lane_by_lane(D, V a, V b, F f) {
  return f(a, b);
}

}  // namespace tessera::ops::N_CUDA
