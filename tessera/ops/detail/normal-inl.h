// The normal distribution function in vectors, and gelu. This file is included once per Highway target.
//
//   tail(t) = ratio(t) * exp(-t * t / 2)     for t >= 0, the distribution function of -t
//
// The ratio decreases slowly from 1/2, so that tails keep their relative accuracy. gelu(x) is max(x, 0) - |x|
// tail(|x|), which loses no digits on either side of zero. With AVX-512, the ratio is a table of polynomials, because a
// register holds a table of 16. Otherwise it is the polynomial of erf, which needs a division.
#include <cmath>

#include "tessera/ops/detail/lanes-inl.h"
#include "tessera/ops/detail/vector_math-inl.h"

#if defined(TESSERA_OPS_DETAIL_NORMAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_OPS_DETAIL_NORMAL_INL_H_
#undef TESSERA_OPS_DETAIL_NORMAL_INL_H_
#else
#define TESSERA_OPS_DETAIL_NORMAL_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// t is |x|, but at most a bound where the tail is 0. `tail` is the tail at t, `exponential` exp(-t * t / 2).
template <class V>
struct NormalTail {
  V t;
  V tail;
  V exponential;
};

#if !defined(__CUDACC__) && HWY_TARGET <= HWY_AVX3

// The ratio in 16 intervals of t: polynomials of the distance from their lower end, fitted to 8e-8, most of them to
// 1e-8. 1 + t is in [1, 16), and its exponent and the first two bits of its fraction are the index: [0, 1/4) is 12,
// [1, 3/2) is 0. A table is one register.
inline constexpr float kRatioStarts[16] = {1, 1.5F, 2, 2.5F, 3, 4, 5, 6, 7, 9, 11, 13, 0, 0.25F, 0.5F, 0.75F};
inline constexpr float kRatioFits[6][16] = {
    {-0.00199307897F, -0.000831487298F, -0.000375069387F, -0.00018120138F, -6.86696294e-05F, -2.19664616e-05F,
     -8.20949663e-06F, -3.46797083e-06F, -1.15341766e-06F, -3.32189046e-07F, -1.17376437e-07F, -4.81225051e-08F,
     -0.0200422816F, -0.0114059914F, -0.00670577027F, -0.00404566433F},
    {0.00865102466F, 0.0038847574F, 0.00188447651F, 0.000977572752F, 0.000497076777F, 0.000177052789F, 7.32381304e-05F,
     3.40249062e-05F, 1.57917293e-05F, 5.17154967e-06F, 2.05184438e-06F, 9.34359662e-07F, 0.0607909746F, 0.0362906046F,
     0.0222946014F, 0.0140543254F},
    {-0.0249347314F, -0.0124405399F, -0.00668131141F, -0.00382106705F, -0.00228156452F, -0.000950977847F,
     -0.000454009161F, -0.000240277557F, -0.000135914626F, -5.3642194e-05F, -2.50262819e-05F, -1.31378065e-05F,
     -0.132772222F, -0.0841819122F, -0.0548468865F, -0.0366454497F},
    {0.0620897338F, 0.0351803564F, 0.0213100705F, 0.0136470636F, 0.00914972741F, 0.00460412074F, 0.00259469752F,
     0.00159026554F, 0.00103808427F, 0.000509851729F, 0.000285656977F, 0.00017538575F, 0.249988735F, 0.170079648F,
     0.118772238F, 0.084950991F},
    {-0.13736324F, -0.0902710035F, -0.0627381653F, -0.0456139036F, -0.0343998745F, -0.0212995652F, -0.0143457074F,
     -0.0102663767F, -0.00768773537F, -0.00475314166F, -0.00321848318F, -0.00231988798F, -0.398942083F, -0.295434088F,
     -0.224132776F, -0.17376788F},
    {0.261578292F, 0.20578067F, 0.168101996F, 0.14133133F, 0.12151394F, 0.0944106355F, 0.0769193023F, 0.0647793114F,
     0.0558934771F, 0.0437987894F, 0.03597489F, 0.0305094142F, 0.5F, 0.414032102F, 0.349618822F, 0.30023247F}};

template <class D, class V>
HWY_INLINE V ratio_of_positive(D d, V t) {
  const hn::RebindToUnsigned<D> du;
  // The instruction reads the low four bits of an index and ignores the others.
  const auto index = hn::ShiftRight<21>(hn::BitCast(du, hn::Add(t, number(d, 1)))).raw;
  const auto of = [&](const float* table) HWY_ATTR { return V{_mm512_permutexvar_ps(index, hn::LoadU(d, table).raw)}; };
  const V x = hn::Sub(t, of(kRatioStarts));
  V sum = of(kRatioFits[0]);
  for (int i = 1; i < 6; ++i) sum = hn::MulAdd(sum, x, of(kRatioFits[i]));
  return sum;
}

// 2^n 2^r with n whole and |r| <= 1/2. The product in r is exact, so that of the argument only the square rounds.
template <class D, class V>
HWY_INLINE V exp_of_half_square(D d, V t) {
  constexpr float kPowersOf2[] = {
      0.000153458313F, 0.00133999309F, 0.00961848907F, 0.0555032864F, 0.240226462F, 0.693147182F, 1.0F};
  const V square = hn::Mul(t, t);
  const V by = number(d, -0.72134752044448170368);  // -1 / (2 ln 2)
  const V magic = number(d, 12582912.0);            // 1.5 * 2^23: adding and subtracting it rounds to whole numbers
  const V n = hn::Sub(hn::MulAdd(square, by, magic), magic);
  return V{_mm512_scalef_ps(polynomial(d, hn::MulSub(square, by, n), kPowersOf2).raw, n.raw)};
}

#else

template <class D, class V>
HWY_INLINE V ratio_of_positive(D d, V t) {
  return hn::Mul(number(d, 0.5), scaled_erfc_of_positive(d, hn::Mul(t, number(d, 0.70710678118654752))));
}

template <class D, class V>
HWY_INLINE V exp_of_half_square(D d, V t) {
  return exp_of_not_positive(d, hn::Mul(number(d, -0.5), hn::Mul(t, t)));
}

#endif

template <class D, class V>
HWY_INLINE NormalTail<V> normal_tail_of(D d, V x) {
  if constexpr (sizeof(TypeOf<D>) == 8) {
    const V t = hn::Min(hn::Abs(x), number(d, 40));
    const V tail = lane_by_lane(d, t, [](auto lane) { return 0.5 * std::erfc(lane * 0.7071067811865475244); });
    return {t, tail, hn::Exp(d, hn::Mul(number(d, -0.5), hn::Mul(t, t)))};
  } else {
    const V t = hn::Min(hn::Abs(x), number(d, 14.9));
    const V exponential = exp_of_half_square(d, t);
    return {t, hn::Mul(ratio_of_positive(d, t), exponential), exponential};
  }
}

#ifdef __CUDACC__
// The ratio is a polynomial of 1 / (1 + 0.38 t), fitted to 4e-5.
HWY_INLINE NormalTail<float> normal_tail_of(hn::NarrowLane d, float x) {
  constexpr float kFit[] = {-0.0899283449F, 0.188876464F, 0.0919797428F, 0.157829474F, 0.151225137F};
  const float t = hn::Min(hn::Abs(x), 14.9F);
  const float exponential = exp_of_not_positive(d, -0.5F * t * t);
  const float s = quotient_of(d, 1.0F, hn::MulAdd(t, 0.38F, 1.0F));
  return {t, polynomial(d, s, kFit) * s * exponential, exponential};
}
#endif

/// x times the normal distribution function.
template <class D, class V>
HWY_INLINE V gelu_of(D d, V x) {
  const NormalTail<V> of = normal_tail_of(d, x);
  const V y = hn::NegMulAdd(of.t, of.tail, hn::Max(x, hn::Zero(d)));
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}

/// The derivative of gelu: the distribution function and x times the density.
template <class D, class V>
HWY_INLINE V gelu_slope_of(D d, V x) {
  const NormalTail<V> of = normal_tail_of(d, x);
  const V below = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), of.tail, hn::Sub(number(d, 1), of.tail));
  const V density = hn::Mul(number(d, 0.39894228040143267794), of.exponential);
  return hn::IfThenElse(hn::Eq(x, x), hn::MulAdd(hn::CopySign(of.t, x), density, below), x);
}

}  // namespace tessera::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_OPS_DETAIL_NORMAL_INL_H_
