// Kernels of arithmetic_rows.h.
#include "tessera/ops/pointwise/cuda/pointwise.cuh"
#include "tessera/ops/pointwise/detail/arithmetic_rows.h"

namespace tessera::ops::HWY_NAMESPACE {

TESSERA_ARITHMETIC_ROWS(TESSERA_FORMULA_2)

TESSERA_CUDA_FAMILY(arithmetic, TESSERA_ARITHMETIC_ROWS)

}  // namespace tessera::ops::HWY_NAMESPACE
