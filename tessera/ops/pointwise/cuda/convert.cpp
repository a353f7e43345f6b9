// cast and copy on CUDA.
#include "tessera/ops/pointwise/convert.h"

#include "tessera/ops/cuda/move_items.h"
#include "tessera/ops/pointwise/cuda/launch_pointwise.h"
#include "tessera/ops/pointwise/detail/types.h"

TESSERA_CUDA_IMAGE(convert_kernels);

namespace tessera::ops::cuda {
namespace {

using detail::Compute;

Image image(TESSERA_CUDA_BYTES(convert_kernels));
const DenseKernel dense[] = {{DType::kF32, DType::kBF16, 8, {image, "cast_f32_bf16"}},
                             {DType::kBF16, DType::kF32, 4, {image, "cast_bf16_f32"}}};
const ImageKernel rows(image, "cast_rows");
const ImageKernel any[] = {
    {image, "cast_any_f32"}, {image, "cast_any_f64"}, {image, "cast_any_i64"}, {image, "cast_any_c64"}};
const ImageKernel any_u64(image, "cast_any_u64");
const ImageKernel any_c128(image, "cast_any_c128");

// Selects a type that can hold every element of the source, as the host does.
PointwiseKernels kernels_between(DType from, DType to) {
  const auto by = [](const ImageKernel& kernel, Compute compute) {
    const bool is_f32 = compute == Compute::kF32;
    return PointwiseKernels{.compute = compute,
                            .dense = is_f32 ? std::span<const DenseKernel>(dense) : std::span<const DenseKernel>(),
                            .rows = is_f32 ? &rows : nullptr,
                            .any = kernel,
                            .types = detail::kFloats,
                            .op = 0};
  };
  if (from == DType::kC128 || to == DType::kC128) return by(any_c128, Compute::kC64);
  if (from == DType::kU64 && (is_floating(to) || is_complex(to))) return by(any_u64, Compute::kI64);
  const Compute compute = detail::compute_of(from);
  return by(any[static_cast<std::size_t>(compute)], compute);
}

void run_copy(const tensor::KernelCall& call) { copy_items(call, call.outputs[0], call.inputs[0]); }

void run_cast(const tensor::KernelCall& call) {
  const DType from = call.inputs[0].dtype();
  const DType to = call.outputs[0].dtype();
  if (from == to) return run_copy(call);
  const detail::TileInput input = detail::TileInput::of(call.inputs[0]);
  launch_pointwise(call, kernels_between(from, to), std::span(&input, 1));
}

const tensor::KernelRegistration kCastOnCuda("cast", "cuda", run_cast);
const tensor::KernelRegistration kCopyOnCuda("copy", "cuda", run_copy);

}  // namespace
}  // namespace tessera::ops::cuda
