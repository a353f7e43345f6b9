// The exp of ops/detail/exp-inl.h under the name that row kernels use. Included once for each vector width.
#if defined(TESSERA_OPS_NN_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_OPS_NN_EXP_INL_H_
#undef TESSERA_OPS_NN_EXP_INL_H_
#else
#define TESSERA_OPS_NN_EXP_INL_H_
#endif

#include <hwy/highway.h>
#include "tessera/ops/detail/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> ExpNonPositive(D d, hn::Vec<D> x) {
  return ops::HWY_NAMESPACE::exp_of_not_positive(d, x);
}

}  // namespace tessera::ops::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
