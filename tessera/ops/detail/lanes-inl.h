// The vectors that formulas compute with: those of a Highway target on the host, one value per thread in CUDA code.
// Included once per Highway target, and by CUDA code.
#if defined(TESSERA_OPS_DETAIL_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_OPS_DETAIL_LANES_INL_H_
#undef TESSERA_OPS_DETAIL_LANES_INL_H_
#else
#define TESSERA_OPS_DETAIL_LANES_INL_H_
#endif

#ifdef __CUDACC__
#include "tessera/ops/cuda/approximations.cuh"
#include "tessera/ops/cuda/lanes.cuh"
#else
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>
#endif

#endif  // TESSERA_OPS_DETAIL_LANES_INL_H_
