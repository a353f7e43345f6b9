// cast and copy on CUDA.
#include "tessera/ops/pointwise/convert.h"

#include "tessera/ops/cuda/move_items.h"
#include "tessera/ops/pointwise/cuda/launch_pointwise.h"

TESSERA_CUDA_IMAGE(convert_kernels);

namespace tessera::ops::cuda {
namespace {

using detail::Compute;

Image image(TESSERA_CUDA_BYTES(convert_kernels));
const TypedKernels through_f32(image, "cast_f32", DType::kF32);
const TypedKernels through_f64(image, "cast_f64", DType::kF64);
const TypedKernels through_i64(image, "cast_i64", DType::kI64);
const TypedKernels through_u64(image, "cast_u64", DType::kU64);
const TypedKernels through_c64(image, "cast_c64", DType::kC64);
const TypedKernels through_c128(image, "cast_c128", DType::kC128);

// Selects a type that can hold every element of the source, as the host does.
const TypedKernels& kernels_between(DType from, DType to) {
  if (from == DType::kC128 || to == DType::kC128) return through_c128;
  if (from == DType::kU64 && (is_floating(to) || is_complex(to))) return through_u64;
  switch (detail::compute_of(from)) {
    case Compute::kF32: return through_f32;
    case Compute::kF64: return through_f64;
    case Compute::kI64: return through_i64;
    case Compute::kC64: break;
  }
  return through_c64;
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
