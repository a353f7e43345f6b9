// Functions of ops/detail/*-inl.h by the instructions of the hardware, which are faster than their formulas for
// vectors.
#pragma once

#include "tessera/ops/cuda/lanes.cuh"

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
