// Functions that the tables of this folder use besides those of ops/detail/vector_math-inl.h. Included once per Highway
// target, and by CUDA code.
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "tessera/ops/detail/lanes-inl.h"
#include "tessera/ops/detail/vector_math-inl.h"
#include "tessera/ops/pointwise/detail/integers.h"

#if defined(TESSERA_OPS_POINTWISE_DETAIL_FORMULAS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_OPS_POINTWISE_DETAIL_FORMULAS_INL_H_
#undef TESSERA_OPS_POINTWISE_DETAIL_FORMULAS_INL_H_
#else
#define TESSERA_OPS_POINTWISE_DETAIL_FORMULAS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace detail;  // NOLINT(google-build-using-namespace): the words of the tables

// Functions of vectors.

template <class D, class V>
HWY_INLINE V sign_of(D d, V x) {
  const V zero = hn::Zero(d);
  const V one = number(d, 1);
  const V y = hn::IfThenElse(hn::Gt(x, zero), one, hn::IfThenElse(hn::Lt(x, zero), hn::Neg(one), zero));
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}
template <class D, class V>
HWY_INLINE V pow_of(D d, V a, V b) {
  const V two = number(d, 2);
  if (hn::AllTrue(d, hn::Eq(b, two))) return hn::Mul(a, a);
  return lane_by_lane(d, a, b, [](auto x, auto y) { return std::pow(x, y); });
}
// Exact, unlike the quotient of floating numbers.
template <class D, class V>
HWY_INLINE V remainder_of(D d, V a, V b) {
  return lane_by_lane(d, a, b, [](auto x, auto y) {
    const auto rest = std::fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  });
}
template <class D, class V>
HWY_INLINE V floor_divide_of(D d, V a, V b) {
  return lane_by_lane(d, a, b, [](auto x, auto y) {
    if (y == 0) return x / y;
    // The quotient towards zero is an integer up to rounding.
    const auto rest = std::fmod(x, y);
    const auto quotient = (x - rest) / y - (rest != 0 && (rest < 0) != (y < 0) ? 1 : 0);
    return std::isfinite(quotient) ? std::round(quotient) : std::floor(x / y);
  });
}
template <class D, class V>
HWY_INLINE auto is_true(D d, V x) {
  return hn::Not(hn::Eq(x, hn::Zero(d)));  // also true for nan, for which Ne of this library is false
}
template <class D, class M>
HWY_INLINE hn::Vec<D> claim(D d, M mask) {
  return hn::IfThenElseZero(mask, number(d, 1));
}

// Functions of an integer or a complex number. abs() and pow() of complex numbers are found by their argument.

template <class T>
HWY_INLINE auto magnitude(T x) {
  if constexpr (std::is_integral_v<T>) {
    return x < 0 ? wrap_neg(x) : x;
  } else {
    return abs(x);
  }
}
// Any value to the power of 0 is 1.
template <class T>
HWY_INLINE T power_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return integer_power(a, b);
  } else {
    return b == T(0) ? T(1) : pow(a, b);
  }
}
template <class T>
HWY_INLINE bool is_finite(T x) {
  if constexpr (std::is_integral_v<T>) {
    return true;
  } else {
    return std::isfinite(x.real()) && std::isfinite(x.imag());
  }
}

}  // namespace tessera::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_OPS_POINTWISE_DETAIL_FORMULAS_INL_H_
