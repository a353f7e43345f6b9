// cross_entropy on CUDA, and its gradient. Everything that depends on targets is computed on the device.
#include "tessera/ops/nn/cuda/cross_entropy.h"

#include <algorithm>

TESSERA_CUDA_IMAGE(cross_entropy_rows);

namespace tessera::ops::cuda {
namespace {

using tensor::KernelCall;

Image image(TESSERA_CUDA_BYTES(cross_entropy_rows));
const CudaRowKernels loss_kernels(image, "cross_entropy", CudaRowKernels::Reads::kOnce);
const CudaRowKernels gradient_kernels(image, "cross_entropy_backward", CudaRowKernels::Reads::kOnce);
const ImageKernel count_kernel(image, "count_targets");
const ImageKernel total_kernel(image, "total_loss");
const ImageKernel copy_f32(image, "copy_rows_f32");
const ImageKernel copy_f64(image, "copy_rows_f64");

// Sums over all rows are those of one block.
constexpr std::uint32_t kSumThreads = 1024;
constexpr std::int64_t kMaxGridRows = 65535;

void forward(const KernelCall& call) {
  const Tensor& logits = call.inputs[0];
  LossForward of;
  of.how = loss_parameters(call, logits.size(-1));
  of.logits = rows_of(call, logits, logits.ndim() - 1);
  of.targets = rows_of(call, call.inputs[1], kNoDim);
  of.logsumexp = rows_of(call, call.outputs[1], kNoDim);
  const DeviceRows loss = rows_of(call, call.outputs[0], kNoDim);
  if (call.as<CrossEntropyAttributes>().reduction == "none") {
    of.loss = loss;
    launch_losses(call, of);
    return;
  }
  const memory::Buffer losses = scratch(call, static_cast<std::size_t>(of.targets.count) * sizeof(double));
  of.losses = reinterpret_cast<double*>(losses.data());
  launch_losses(call, of);
  launch_total(call, of.losses, of.targets, of.how, loss);
}

void backward(const KernelCall& call) {
  const Tensor& logits = call.inputs[1];
  if (logits.numel() == 0) return;
  LossBackward of;
  of.how = loss_parameters(call, logits.size(-1));
  of.is_reduced = call.as<CrossEntropyAttributes>().reduction != "none";
  of.grad = rows_of(call, call.inputs[0], kNoDim);
  of.logits = rows_of(call, logits, logits.ndim() - 1);
  of.targets = rows_of(call, call.inputs[2], kNoDim);
  of.logsumexp = rows_of(call, call.inputs[3], kNoDim);
  of.grad_logsumexp = rows_of(call, call.inputs[4], kNoDim);
  of.dx = rows_of(call, call.outputs[0], logits.ndim() - 1);
  const memory::Buffer divisor = launch_divisor(call, of.targets, of.how);
  of.divisor = reinterpret_cast<const double*>(divisor.data());
  launch_loss_gradients(call, of);
}

const tensor::KernelRegistration kCrossEntropy("cross_entropy", "cuda", forward);
const tensor::KernelRegistration kCrossEntropyBackward("cross_entropy_backward", "cuda", backward);

}  // namespace

LossParameters loss_parameters(const KernelCall& call, std::int64_t classes) {
  const auto& attributes = call.as<CrossEntropyAttributes>();
  LossParameters how;
  how.ignore_index = attributes.ignore_index;
  how.is_part = attributes.classes > 0;
  how.targets_end = how.is_part ? attributes.classes : classes;
  how.smoothing = attributes.label_smoothing;
  how.share = attributes.label_smoothing / static_cast<double>(how.targets_end);
  how.count = attributes.reduction == "mean" ? attributes.count : 1;
  if (!how.is_part) return how;
  const layout::IndexMap& map = attributes.class_map;
  TESSERA_CHECK_AS(NotSupported, map.levels.size() <= kMaxClassLevels, call.op.name(),
                   ": classes must be sharded into blocks at most ", kMaxClassLevels, " times, got ",
                   map.levels.size());
  how.offset = map.offset;
  how.block = map.block;
  for (const layout::IndexMap::StrideLevel& level : map.levels) {
    how.counts[how.nlevels] = level.count;
    how.strides[how.nlevels++] = level.stride;
  }
  return how;
}

void launch_losses(const KernelCall& call, const LossForward& of) { loss_kernels.launch(call, {&of.logits}, of); }

void launch_loss_gradients(const KernelCall& call, const LossBackward& of) {
  gradient_kernels.launch(call, {&of.logits, &of.dx}, of);
}

void launch_total(const KernelCall& call, const double* losses, const DeviceRows& targets, const LossParameters& how,
                  const DeviceRows& to) {
  launch(call, total_kernel, 1, kSumThreads, losses, targets, how.ignore_index, how.count, to);
}

memory::Buffer launch_divisor(const KernelCall& call, const DeviceRows& targets, const LossParameters& how) {
  if (how.count > 0) return {};
  memory::Buffer divisor = scratch(call, sizeof(double));
  launch(call, count_kernel, 1, kSumThreads, targets, how.ignore_index, dense_rows(divisor.data(), DType::kF64, 1, 1));
  return divisor;
}

void launch_copy(const KernelCall& call, const DeviceRows& from, const DeviceRows& to, const CopiedRows& rows) {
  if (rows.count == 0 || to.length == 0) return;
  const bool is_double = from.dtype == DType::kF64 || to.dtype == DType::kF64;
  const auto columns = static_cast<std::uint32_t>((to.length + kThreads - 1) / kThreads);
  const auto lines = static_cast<std::uint32_t>(std::min(rows.count, kMaxGridRows));
  launch(call, is_double ? copy_f64 : copy_f32, {.grid = {columns, lines, 1}, .block = {kThreads, 1, 1}},
         device::KernelArgs(from, rows.from, to, rows.to, rows.count));
}

}  // namespace tessera::ops::cuda
