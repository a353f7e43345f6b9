// Registers the operators of arithmetic_rows.h on CUDA.
#include "tessera/ops/pointwise/cuda/arithmetic_rows.h"
#include "tessera/ops/pointwise/cuda/launch_pointwise.h"
#include "tessera/ops/pointwise/detail/row.h"
#include "tessera/ops/pointwise/pointwise.h"

TESSERA_CUDA_IMAGE(arithmetic_kernels);

namespace tessera::ops::cuda {
namespace {

using namespace detail;  // NOLINT(google-build-using-namespace): the words of the tables

// The parameters determine the dtype of a call, and thus the kernel.
template <unsigned kTypes, Numbers kNumbers>
void run(const tensor::KernelCall& call, const PointwiseKernels& kernels) {
  static constexpr PointwiseRow kRow = {.name = "", .inputs = "", .types = kTypes, .numbers = kNumbers};
  const Compute compute = compute_of(computed_dtype(kRow, call));
  TileInput inputs[4];
  std::size_t count = 0;
  if (kNumbers == Numbers::kFirst) inputs[count++] = TileInput::of(call.as<ScalarAttributes>().value, compute);
  for (const Tensor& tensor : call.inputs) inputs[count++] = TileInput::of(tensor);
  if (kNumbers == Numbers::kLast) inputs[count++] = TileInput::of(call.as<ScalarAttributes>().value, compute);
  launch_pointwise(call, kernels.in(compute), std::span(inputs, count));
}

Image image(TESSERA_CUDA_BYTES(arithmetic_kernels));

#define TESSERA_ROW_KERNELS(name, inputs, types, ...)           \
  constexpr unsigned name##_types = (types);                    \
  const PointwiseKernels name##_kernels(image, #name, (types)); \
  const tensor::KernelRegistration name##_on_cuda(              \
      #name, "cuda", [](const tensor::KernelCall& call) { run<name##_types, Numbers::kNone>(call, name##_kernels); });
#define TESSERA_NUMBER_ROW(name, row, place)       \
  const tensor::KernelRegistration name##_on_cuda( \
      #name, "cuda", [](const tensor::KernelCall& call) { run<row##_types, Numbers::place>(call, row##_kernels); });
TESSERA_CUDA_ARITHMETIC_ROWS(TESSERA_ROW_KERNELS)
TESSERA_CUDA_ARITHMETIC_NUMBER_ROWS(TESSERA_NUMBER_ROW)

}  // namespace
}  // namespace tessera::ops::cuda
