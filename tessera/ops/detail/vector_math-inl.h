// Functions of vectors of f32 and f64, included once per Highway target, and by CUDA code. Special values follow IEEE:
// nan stays nan, log of 0 is -inf, log of a negative number is nan, exp overflows to inf. f32 is accurate to a few ulp.
// Functions without a vector form in double precision are computed lane by lane.
#include <cmath>

#include "tessera/ops/detail/exp-inl.h"
#include "tessera/ops/detail/lanes-inl.h"

#if defined(TESSERA_OPS_DETAIL_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_OPS_DETAIL_VECTOR_MATH_INL_H_
#undef TESSERA_OPS_DETAIL_VECTOR_MATH_INL_H_
#else
#define TESSERA_OPS_DETAIL_VECTOR_MATH_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using TypeOf = hn::TFromD<D>;

/// Returns `value` in all lanes.
template <class D>
HWY_INLINE hn::Vec<D> number(D d, double value) {
  return hn::Set(d, static_cast<TypeOf<D>>(value));
}

#ifndef __CUDACC__
/// Returns a / b for b in [2^-120, 2^120]. On devices, the result is accurate to 1 ulp.
template <class D, class V>
HWY_INLINE V quotient_of(D, V a, V b) {
  return hn::Div(a, b);
}
/// Applies f to each lane.
template <class D, class V, class F>
HWY_INLINE V lane_by_lane(D d, V x, F f) {
  alignas(64) TypeOf<D> lanes[hn::MaxLanes(d)];
  hn::Store(x, d, lanes);
  for (auto& lane : lanes) lane = f(lane);
  return hn::Load(d, lanes);
}
/// Applies f to each pair of lanes.
template <class D, class V, class F>
HWY_INLINE V lane_by_lane(D d, V a, V b, F f) {
  alignas(64) TypeOf<D> of_a[hn::MaxLanes(d)];
  alignas(64) TypeOf<D> of_b[hn::MaxLanes(d)];
  hn::Store(a, d, of_a);
  hn::Store(b, d, of_b);
  for (std::size_t i = 0; i < hn::MaxLanes(d); ++i) of_a[i] = f(of_a[i], of_b[i]);
  return hn::Load(d, of_a);
}
#endif

/// Evaluates the polynomial with these coefficients, highest first.
template <class D, class V, std::size_t kCount>
HWY_INLINE V polynomial(D d, V x, const float (&coefficients)[kCount]) {
  V sum = hn::Set(d, coefficients[0]);
  for (std::size_t i = 1; i < kCount; ++i) sum = hn::MulAdd(sum, x, hn::Set(d, coefficients[i]));
  return sum;
}

template <class D, class V>
HWY_INLINE V exp_of(D d, V x) {
  const V most = number(d, sizeof(TypeOf<D>) == 4 ? 88.72283 : 709.782712893384);
  V y = hn::Exp(d, hn::Min(x, most));
  y = hn::IfThenElse(hn::Gt(x, most), hn::Inf(d), y);
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}

template <class D, class V>
HWY_INLINE V log_specials(D d, V x, V y) {
  const V zero = hn::Zero(d);
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(hn::Inf(d)), y);
  y = hn::IfThenElse(hn::Lt(x, zero), hn::NaN(d), y);
  return hn::IfThenElse(hn::Lt(x, hn::Inf(d)), y, x);  // inf and nan are their own logarithms
}
template <class D, class V>
HWY_INLINE V log_of(D d, V x) {
  const V y = log_specials(d, x, hn::Log(d, x));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::NaN(d), y);
}
template <class D, class V>
HWY_INLINE V log1p_of(D d, V x) {
  const V one = number(d, 1);
  const V y = log_specials(d, hn::Add(x, one), hn::Log1p(d, x));
  return hn::IfThenElse(hn::Lt(x, hn::Neg(one)), hn::NaN(d), y);
}

template <class D, class V>
HWY_INLINE V tanh_of(D d, V x) {
  return hn::IfThenElse(hn::Eq(x, x), hn::Tanh(d, x), x);
}

// The vector forms lose precision far from zero. Such arguments are rare and computed one by one.
template <class D, class V>
HWY_INLINE V sin_of(D d, V x) {
  if (hn::AllTrue(d, hn::Lt(hn::Abs(x), number(d, 1000)))) return hn::Sin(d, x);
  return lane_by_lane(d, x, [](auto lane) { return std::sin(lane); });
}
template <class D, class V>
HWY_INLINE V cos_of(D d, V x) {
  if (hn::AllTrue(d, hn::Lt(hn::Abs(x), number(d, 1000)))) return hn::Cos(d, x);
  return lane_by_lane(d, x, [](auto lane) { return std::cos(lane); });
}

template <class D, class V>
HWY_INLINE V sigmoid_of(D d, V x) {
  // Uses the exponential of a number that is not positive, which neither overflows nor loses normal numbers.
  const V e = exp_of_not_positive(d, hn::Neg(hn::Abs(x)));
  const V one = number(d, 1);
  const V y = quotient_of(d, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}

template <class D, class V>
HWY_INLINE V softplus_of(D d, V x) {
  const V e = exp_of_not_positive(d, hn::Neg(hn::Abs(x)));
  const V y = hn::Add(hn::Max(x, hn::Zero(d)), hn::Log1p(d, e));
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}

/// exp(t * t) erfc(t) for t >= 0 of f32: 1 / (1 + 2 t) times a polynomial of u = (t - 3) / (t + 3), fitted to 3e-9. One
/// division serves both.
template <class D, class V>
HWY_INLINE V scaled_erfc_of_positive(D d, V t) {
  constexpr float kFit[] = {-0.0002782657F, -0.000800951788F, 0.00199252102F, 0.00257998426F,
                            -0.0237891178F, 0.0682936671F,    -0.119272827F,  0.129646538F,
                            -0.0475622721F, -0.135621142F,    1.25300806F};
  const V three = number(d, 3);
  const V a = hn::Add(t, three);
  const V b = hn::MulAdd(t, number(d, 2), number(d, 1));
  const V inverse = quotient_of(d, number(d, 1), hn::Mul(a, b));
  const V u = hn::Mul(hn::Mul(hn::Sub(t, three), b), inverse);
  return hn::Mul(polynomial(d, u, kFit), hn::Mul(a, inverse));
}

template <class D, class V>
HWY_INLINE V erf_of(D d, V x) {
  if constexpr (sizeof(TypeOf<D>) == 8) {
    return lane_by_lane(d, x, [](auto lane) { return std::erf(lane); });
  } else {
    constexpr float kFit[] = {7.87587506e-5F, -0.000801686429F, 0.00518908742F, -0.026854212F,
                              0.112835947F,   -0.376126267F,    1.12837917F};
    const V square = hn::Mul(x, x);
    const V small = hn::Mul(x, polynomial(d, square, kFit));
    const V t = hn::Min(hn::Abs(x), number(d, 10));
    const V decay = exp_of_not_positive(d, hn::Neg(hn::Mul(t, t)));
    const V large = hn::Sub(number(d, 1), hn::Mul(decay, scaled_erfc_of_positive(d, t)));
    const V y = hn::IfThenElse(hn::Lt(square, number(d, 1)), small, hn::CopySign(large, x));
    return hn::IfThenElse(hn::Eq(x, x), y, x);
  }
}

/// gelu by tanh: x * sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3).
template <class D, class V>
HWY_INLINE V gelu_tanh_argument(D d, V x) {
  const V cube = hn::Mul(hn::Mul(x, x), number(d, 0.044715));
  return hn::Mul(hn::MulAdd(cube, x, x), number(d, 1.59576912160573071176));
}
template <class D, class V>
HWY_INLINE V gelu_tanh_of(D d, V x) {
  const V y = hn::Mul(x, sigmoid_of(d, gelu_tanh_argument(d, x)));
  return hn::IfThenElse(hn::Eq(x, hn::Neg(hn::Inf(d))), hn::Zero(d), y);
}
template <class D, class V>
HWY_INLINE V gelu_tanh_slope_of(D d, V x) {
  const V t = hn::Min(hn::Max(x, number(d, -100)), number(d, 100));
  const V s = sigmoid_of(d, gelu_tanh_argument(d, t));
  const V slope =
      hn::MulAdd(hn::Mul(t, t), number(d, 3 * 0.044715 * 1.59576912160573071176), number(d, 1.59576912160573071176));
  const V y = hn::MulAdd(hn::Mul(t, slope), hn::Mul(s, hn::Sub(number(d, 1), s)), s);
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}

template <class D, class V>
HWY_INLINE V silu_of(D d, V x) {
  const V y = hn::Mul(x, sigmoid_of(d, x));
  return hn::IfThenElse(hn::Eq(x, hn::Neg(hn::Inf(d))), hn::Zero(d), y);
}
template <class D, class V>
HWY_INLINE V silu_slope_of(D d, V x) {
  const V t = hn::Min(hn::Max(x, number(d, -1000)), number(d, 1000));
  const V s = sigmoid_of(d, t);
  const V y = hn::Mul(s, hn::MulAdd(t, hn::Sub(number(d, 1), s), number(d, 1)));
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}

/// Returns the lesser or greater; nan if one of them is nan.
template <class D, class V>
HWY_INLINE V minimum_of(D, V a, V b) {
  return hn::IfThenElse(hn::Eq(a, a), hn::IfThenElse(hn::Lt(a, b), a, b), a);
}
template <class D, class V>
HWY_INLINE V maximum_of(D, V a, V b) {
  return hn::IfThenElse(hn::Eq(a, a), hn::IfThenElse(hn::Gt(a, b), a, b), a);
}

}  // namespace tessera::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_OPS_DETAIL_VECTOR_MATH_INL_H_
