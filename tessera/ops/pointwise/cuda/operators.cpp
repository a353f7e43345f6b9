// Registers the operators of the tables of pointwise/detail on CUDA.
#include "tessera/ops/pointwise/cuda/launch_pointwise.h"
#include "tessera/ops/pointwise/detail/activation_rows.h"
#include "tessera/ops/pointwise/detail/arithmetic_rows.h"
#include "tessera/ops/pointwise/detail/compare_rows.h"
#include "tessera/ops/pointwise/detail/function_rows.h"
#include "tessera/ops/pointwise/detail/row.h"
#include "tessera/ops/pointwise/detail/selection_rows.h"

TESSERA_CUDA_IMAGE(activation_kernels);
TESSERA_CUDA_IMAGE(arithmetic_kernels);
TESSERA_CUDA_IMAGE(compare_kernels);
TESSERA_CUDA_IMAGE(function_kernels);
TESSERA_CUDA_IMAGE(selection_kernels);

namespace tessera::ops::cuda {
namespace {

using namespace detail;  // NOLINT(google-build-using-namespace): the words of the tables

// The parameters determine the dtype of a call, and thus the kernel.
template <unsigned kTypes, Numbers kNumbers>
void run(const tensor::KernelCall& call, const FormulaKernels& kernels) {
  static constexpr PointwiseRow kRow = {.name = "", .inputs = "", .types = kTypes, .numbers = kNumbers};
  const RowInputs inputs(kRow, call);
  launch_pointwise(call, kernels.in(inputs.compute), inputs.span());
}

#define TESSERA_INDEX(name, ...) k_##name,
#define TESSERA_FAMILY(family, FORMULAS)                      \
  Image family##_image(TESSERA_CUDA_BYTES(family##_kernels)); \
  const FamilyKernels family##_any(family##_image, #family);  \
  enum { FORMULAS(TESSERA_INDEX) };
#define TESSERA_KERNELS(family, name, types) \
  constexpr unsigned name##_types = (types); \
  const FormulaKernels name##_kernels(family##_image, #name, k_##name, name##_types, family##_any);
#define TESSERA_ON_CUDA(name, formula, place)                                                         \
  const tensor::KernelRegistration name##_on_cuda(#name, "cuda", [](const tensor::KernelCall& call) { \
    run<formula##_types, Numbers::place>(call, formula##_kernels);                                    \
  });
#define TESSERA_ROW_ON_CUDA(name, ...) TESSERA_ON_CUDA(name, name, kNone)

#define TESSERA_KERNELS_OF_ROW(name, types, ...) TESSERA_KERNELS(function, name, types)
TESSERA_FAMILY(function, TESSERA_FUNCTION_FORMULAS)
TESSERA_FUNCTION_FORMULAS(TESSERA_KERNELS_OF_ROW)
TESSERA_FUNCTION_FORMULAS(TESSERA_ROW_ON_CUDA)
#undef TESSERA_KERNELS_OF_ROW

#define TESSERA_KERNELS_OF_ROW(name, types, ...) TESSERA_KERNELS(arithmetic, name, types)
#define TESSERA_NUMBER_ON_CUDA(name, formula, place, ...) TESSERA_ON_CUDA(name, formula, place)
TESSERA_FAMILY(arithmetic, TESSERA_ARITHMETIC_ROWS)
TESSERA_ARITHMETIC_ROWS(TESSERA_KERNELS_OF_ROW)
TESSERA_ARITHMETIC_ROWS(TESSERA_ROW_ON_CUDA)
TESSERA_ARITHMETIC_NUMBER_ROWS(TESSERA_NUMBER_ON_CUDA)
#undef TESSERA_NUMBER_ON_CUDA
#undef TESSERA_KERNELS_OF_ROW

#define TESSERA_KERNELS_OF_ROW(name, types, ...) TESSERA_KERNELS(compare, name, types)
#define TESSERA_NUMBER_ON_CUDA(name, ...) TESSERA_ON_CUDA(name##_scalar, name, kLast)
TESSERA_FAMILY(compare, TESSERA_COMPARE_FORMULAS)
TESSERA_COMPARE_FORMULAS(TESSERA_KERNELS_OF_ROW)
TESSERA_COMPARE_FORMULAS(TESSERA_ROW_ON_CUDA)
TESSERA_ORDER_ROWS(TESSERA_NUMBER_ON_CUDA)
#undef TESSERA_NUMBER_ON_CUDA
#undef TESSERA_KERNELS_OF_ROW

#define TESSERA_KERNELS_OF_ROW(name, types, ...) TESSERA_KERNELS(activation, name, types)
TESSERA_FAMILY(activation, TESSERA_ACTIVATION_FORMULAS)
TESSERA_ACTIVATION_FORMULAS(TESSERA_KERNELS_OF_ROW)
TESSERA_ACTIVATION_FORMULAS(TESSERA_ROW_ON_CUDA)
#undef TESSERA_KERNELS_OF_ROW

#define TESSERA_KERNELS_OF_ROW(name, types, ...) TESSERA_KERNELS(selection, name, types)
#define TESSERA_OPERATOR_ON_CUDA(name, formula, names, place, ...) TESSERA_ON_CUDA(name, formula, place)
TESSERA_FAMILY(selection, TESSERA_SELECTION_FORMULAS)
TESSERA_SELECTION_FORMULAS(TESSERA_KERNELS_OF_ROW)
TESSERA_SELECTION_OPERATORS(TESSERA_OPERATOR_ON_CUDA)
#undef TESSERA_OPERATOR_ON_CUDA
#undef TESSERA_KERNELS_OF_ROW

}  // namespace
}  // namespace tessera::ops::cuda
