// Kernels of function_rows.h.
#include "tessera/ops/pointwise/cuda/pointwise.cuh"
#include "tessera/ops/pointwise/detail/function_rows.h"

namespace tessera::ops::HWY_NAMESPACE {

TESSERA_FUNCTION_FORMULAS(TESSERA_FORMULA_1)

TESSERA_CUDA_FAMILY(function, TESSERA_FUNCTION_FORMULAS)

}  // namespace tessera::ops::HWY_NAMESPACE
