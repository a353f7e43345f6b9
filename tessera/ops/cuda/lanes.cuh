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
template <class V>
HWY_INLINE V Min(V a, V b) {
  return std::fmin(a, b);
}
template <class V>
HWY_INLINE V Max(V a, V b) {
  return std::fmax(a, b);
}
template <class V>
HWY_INLINE V Floor(V x) {
  return std::floor(x);
}
template <class V>
HWY_INLINE V Ceil(V x) {
  return std::ceil(x);
}
template <class V>
HWY_INLINE V Round(V x) {
  return std::rint(x);
}
template <class V>
HWY_INLINE V CopySign(V x, V sign) {
  return std::copysign(x, sign);
}
template <class V>
HWY_INLINE V Abs(V x) {
  return std::fabs(x);
}
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

template <class D, class V>
HWY_INLINE V Exp(D, V x) {
  return std::exp(x);
}
template <class D, class V>
HWY_INLINE V Log(D, V x) {
  return std::log(x);
}
template <class D, class V>
HWY_INLINE V Log1p(D, V x) {
  return std::log1p(x);
}
template <class D, class V>
HWY_INLINE V Tanh(D, V x) {
  return std::tanh(x);
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
