// Kernels of activation_rows.h.
#include "tessera/ops/detail/normal-inl.h"
#include "tessera/ops/pointwise/cuda/pointwise.cuh"
#include "tessera/ops/pointwise/detail/activation_rows.h"

namespace tessera::ops::HWY_NAMESPACE {

TESSERA_ACTIVATION_ROWS(TESSERA_FORMULA_1)
TESSERA_ACTIVATION_BACKWARD_ROWS(TESSERA_FORMULA_2)

TESSERA_CUDA_FAMILY(activation, TESSERA_ACTIVATION_FORMULAS)

}  // namespace tessera::ops::HWY_NAMESPACE
