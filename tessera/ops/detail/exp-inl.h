// exp of numbers that are not positive, for softmax and the activations: e^x = 2^n e^r with integer n and
// abs(r) <= ln 2 / 2. A polynomial computes e^r. The error in f32 is at most 2 ulp; results below the least normal
// number are 0. This file is included once per vector width, and by CUDA code.
#if defined(TESSERA_OPS_DETAIL_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_OPS_DETAIL_EXP_INL_H_
#undef TESSERA_OPS_DETAIL_EXP_INL_H_
#else
#define TESSERA_OPS_DETAIL_EXP_INL_H_
#endif

#include "tessera/ops/detail/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> exp_of_f32_not_positive(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  // Adding and subtracting 1.5 * 2^23 yields the nearest integer; the low bits of the sum hold it.
  const auto magic = hn::Set(d, 12582912.0f);
  const auto biased = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const auto n = hn::Sub(biased, magic);
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693145752f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6f), r);
  auto q = hn::MulAdd(hn::Set(d, 0.001392621346613538f), r, hn::Set(d, 0.00836320297157575f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.04166655443768795f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.1666657684599398f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.5f));
  q = hn::MulAdd(q, hn::Mul(r, r), r);
  q = hn::Add(q, hn::Set(d, 1.0f));
  // Multiplies by 2^n: adds n to the exponent of e^r, which is in [0.7, 1.42].
  const auto bits = hn::Add(hn::BitCast(di, q), hn::ShiftLeft<23>(hn::BitCast(di, biased)));
  // A nan does not compare below the bound and remains nan.
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3f)), hn::BitCast(d, bits));
}

template <class D>
HWY_INLINE hn::Vec<D> exp_of_not_positive(D d, hn::Vec<D> x) {
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return exp_of_f32_not_positive(d, x);
  } else {
    return hn::Exp(d, x);
  }
}

}  // namespace tessera::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
