// adamw on CUDA: one launch for up to kMaxAdamWTensors dense tensors. More tensors
// take several launches, and each tensor that is not dense takes one. The last launch increments the step, because the
// others read it. A step is below 2^32.
#include <algorithm>
#include <memory>

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/update/cuda/adamw_lists.h"
#include "tessera/ops/update/detail/lists.h"
#include "tessera/ops/update/update.h"

TESSERA_CUDA_IMAGE(adamw_lists);

namespace tessera::ops::cuda {
namespace {

using detail::ListCall;
using tensor::KernelCall;

Image image(TESSERA_CUDA_BYTES(adamw_lists));
const ImageKernel lists_kernel(image, "adamw_lists");
const ImageKernel strided_kernel(image, "adamw_strided");

// Blocks per multiprocessor. Each block computes the values of the step, so no more blocks than can be resident.
constexpr std::int64_t kBlocksEach = 8;

// Returns the tensors at index i, in the order of AdamWPart.
const Tensor& part_of(const ListCall& of, std::size_t i, int part) {
  const auto list = static_cast<std::size_t>(part);
  return part < kNewParam ? of.at(list, i) : of.out(list - kNewParam, i);
}

AdamWTensor tensor_of(const ListCall& of, std::size_t i, bool& is_dense) {
  AdamWTensor tensor;
  tensor.numel = of.at(0, i).numel();
  tensor.has_vectors = true;
  tensor.is_float = true;
  is_dense = true;
  for (int part = 0; part < kAdamWParts; ++part) {
    const Tensor& x = part_of(of, i, part);
    tensor.parts[part] = x.data();
    tensor.dtypes[part] = x.dtype();
    tensor.is_float = tensor.is_float && x.dtype() == DType::kF32;
    is_dense &= x.is_contiguous();
    const std::size_t nbytes = std::min<std::size_t>(4 * itemsize(x.dtype()), 16);
    tensor.has_vectors = tensor.has_vectors && reinterpret_cast<std::uintptr_t>(x.data()) % nbytes == 0;
  }
  return tensor;
}

AdamWScalar scalar_of(const Tensor& x) {
  if (!x) return {};
  return {x.data(), x.dtype()};
}

AdamWStepInfo info_of(const ListCall& of) {
  const auto& how = of.call.as<AdamWAttributes>();
  return {how.beta1,
          how.beta2,
          how.eps,
          how.weight_decay,
          scalar_of(of.single(1)),
          scalar_of(of.single(2)),
          scalar_of(of.single(3)),
          of.single(0).data_as<std::int64_t>(),
          nullptr};
}

void launch_strided(const KernelCall& call, const ListCall& of, std::size_t i, const AdamWStepInfo& info,
                    const AdamWTensor& tensor) {
  const Tensor& x = of.at(0, i);
  TESSERA_CHECK_AS(NotSupported, x.ndim() <= kMaxAdamWDims, "adamw: a tensor that is not contiguous must have at most ",
                   kMaxAdamWDims, " dimensions on cuda, got tensor ", i, ", ", describe(x));
  AdamWStrided strided{info, tensor};
  strided.ndim = x.ndim();
  for (int d = 0; d < x.ndim(); ++d) {
    strided.sizes[d] = x.shape()[static_cast<std::size_t>(d)];
    for (int part = 0; part < kAdamWParts; ++part) {
      strided.strides[part][d] = part_of(of, i, part).strides()[static_cast<std::size_t>(d)];
    }
  }
  launch(call, strided_kernel, blocks_for(call, tensor.numel, kThreads), kThreads, strided);
}

void launch_lists(const KernelCall& call, const AdamWLists& lists) {
  const std::int64_t most = call.where.context->device.properties().multiprocessors * kBlocksEach;
  const auto blocks = static_cast<std::uint32_t>(std::clamp<std::int64_t>(lists.pieces, 1, most));
  launch(call, lists_kernel, blocks, kThreads, lists);
}

void run(const KernelCall& call) {
  const ListCall of(call, 4, 4);
  const auto lists = std::make_unique<AdamWLists>();
  lists->info = info_of(of);
  for (std::size_t i = 0; i < of.count; ++i) {
    bool is_dense = true;
    const AdamWTensor tensor = tensor_of(of, i, is_dense);
    if (tensor.numel == 0) continue;
    if (!is_dense) {
      launch_strided(call, of, i, lists->info, tensor);
      continue;
    }
    const std::int64_t pieces = (tensor.numel + kAdamWPiece - 1) / kAdamWPiece;
    if (lists->count == kMaxAdamWTensors || lists->pieces + pieces > INT32_MAX) {
      launch_lists(call, *lists);
      lists->count = 0;
      lists->pieces = 0;
    }
    TESSERA_CHECK_AS(NotSupported, pieces <= INT32_MAX, "adamw: tensor ", i, " has too many elements for one launch, ",
                     tensor.numel);
    lists->first_piece[lists->count] = lists->pieces;
    lists->tensors[lists->count++] = tensor;
    lists->pieces += static_cast<std::int32_t>(pieces);
  }
  // Also without remaining tensors, because this launch increments the step.
  lists->info.new_step = call.outputs[3 * of.count].data_as<std::int64_t>();
  launch_lists(call, *lists);
}

const tensor::KernelRegistration kAdamW("adamw", "cuda", run);

}  // namespace
}  // namespace tessera::ops::cuda
