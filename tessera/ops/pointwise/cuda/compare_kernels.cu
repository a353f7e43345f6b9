// Kernels of compare_rows.h.
#include "tessera/ops/pointwise/cuda/pointwise.cuh"
#include "tessera/ops/pointwise/detail/compare_rows.h"

namespace tessera::ops::HWY_NAMESPACE {

TESSERA_ORDER_ROWS(TESSERA_FORMULA_2)
TESSERA_LOGIC_ROWS(TESSERA_FORMULA_2)
TESSERA_PREDICATE_ROWS(TESSERA_FORMULA_1)

TESSERA_CUDA_FAMILY(compare, TESSERA_COMPARE_FORMULAS)

}  // namespace tessera::ops::HWY_NAMESPACE
