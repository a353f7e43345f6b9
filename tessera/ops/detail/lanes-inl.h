// The vectors that formulas compute with: those of a Highway target on the host, one value per thread in CUDA code.
// Included once per Highway target; the included headers have guards.
#ifdef __CUDACC__
#include "tessera/ops/cuda/lanes.cuh"
#else
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>
#endif
