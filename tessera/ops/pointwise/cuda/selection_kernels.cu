// Kernels of selection_rows.h.
#include "tessera/ops/pointwise/cuda/pointwise.cuh"
#include "tessera/ops/pointwise/detail/selection_rows.h"

namespace tessera::ops::HWY_NAMESPACE {

TESSERA_SELECTION_ROWS_3(TESSERA_FORMULA_3)
TESSERA_SELECTION_ROWS_4(TESSERA_FORMULA_4)

TESSERA_CUDA_FAMILY(selection, TESSERA_SELECTION_FORMULAS)

}  // namespace tessera::ops::HWY_NAMESPACE
