// foreach_add, foreach_mul and the optimizers on CUDA: one launch for up to kMaxListTensors dense tensors of the dtypes
// of a kernel. More tensors take several launches, and each tensor that is not dense takes one.
#include "tessera/ops/update/cuda/update_lists.h"

#include <algorithm>
#include <array>

#include "tessera/ops/update/cuda/list_calls.h"
#include "tessera/ops/update/update.h"

TESSERA_CUDA_IMAGE(update_lists);

namespace tessera::ops::cuda {
namespace {

using detail::ListCall;
using tensor::KernelCall;

Image image(TESSERA_CUDA_BYTES(update_lists));

// The kernels of an operation, as update_lists.cu defines them.
struct UpdateKernels {
  UpdateKernels(const std::string& name, std::size_t inputs_of, std::size_t outputs_of, std::size_t half_of,
                std::int64_t blocks_of)
      : f32(image, name + "_f32"),
        mixed(image, name + "_mixed"),
        any(image, name + "_any"),
        strided(image, name + "_strided"),
        inputs(inputs_of),
        outputs(outputs_of),
        half(half_of),
        blocks_each(blocks_of) {}

  ImageKernel f32, mixed, any, strided;
  std::size_t inputs, outputs;
  std::size_t half;          // the input that is bf16 in `mixed`
  std::int64_t blocks_each;  // resident blocks per multiprocessor: no more are launched, because each has an equal part
};

const UpdateKernels add_kernels("add", 2, 1, 1, 3);
const UpdateKernels mul_kernels("mul", 1, 1, 0, 4);
const UpdateKernels sgd_kernels("sgd", 2, 1, 1, 3);
const UpdateKernels sgd_momentum_kernels("sgd_momentum", 3, 2, 1, 2);
const UpdateKernels lion_kernels("lion", 3, 2, 1, 2);
const UpdateKernels adamw_kernels("adamw", 4, 3, 1, 4);
const ImageKernel adamw_step_kernel(image, "adamw_step");

enum Kind : std::uint8_t { kF32, kMixed, kAny, kKinds };

// Returns the fastest kind of kernel for a tensor.
Kind kind_of(const UpdateKernels& kernels, const ListTensor& tensor) {
  if (!tensor.has_vectors) return kAny;
  bool is_f32 = true;
  bool is_mixed = true;
  for (std::size_t n = 0; n < kernels.inputs + kernels.outputs; ++n) {
    // Results replace all inputs but the gradient, see source_of() in update_lists.cu.
    const std::size_t out = n - kernels.inputs;
    const std::size_t source = n < kernels.inputs ? n : out == 0 ? 0 : out + 1;
    is_f32 &= tensor.dtypes[n] == DType::kF32;
    is_mixed &= tensor.dtypes[n] == (source == kernels.half ? DType::kBF16 : DType::kF32);
  }
  return is_f32 ? kF32 : is_mixed ? kMixed : kAny;
}

// The launches of a call: one table per kind of kernel.
class UpdateLaunches {
 public:
  UpdateLaunches(const KernelCall& call, const UpdateKernels& kernels, const StepInfo& info, device::Access prepared)
      : call_(call), kernels_(kernels), info_(info), prepared_(prepared) {}

  void add(const ListCall& of, std::size_t i) {
    bool is_dense = true;
    const ListTensor tensor = list_tensor(of, i, kernels_.inputs, kernels_.outputs, is_dense);
    if (tensor.numel == 0) return;
    if (!is_dense) {
      const StridedTensor strided = strided_tensor(of, i, kernels_.inputs, kernels_.outputs, info_, tensor);
      start(kernels_.strided, blocks_for(call_, tensor.numel, kThreads), device::KernelArgs(strided));
      return;
    }
    const Kind kind = kind_of(kernels_, tensor);
    auto& lists = lists_[kind];
    const std::int64_t units = (tensor.numel + kListUnit - 1) / kListUnit;
    if (lists && is_full(*lists, units)) launch_kind(kind);
    if (!lists) lists = empty_lists(info_);
    append(*lists, tensor, units);
  }
  void finish() {
    for (const Kind kind : {kF32, kMixed, kAny}) {
      if (lists_[kind]) launch_kind(kind);
    }
  }

 private:
  void launch_kind(Kind kind) {
    const ImageKernel& kernel = kind == kF32 ? kernels_.f32 : kind == kMixed ? kernels_.mixed : kernels_.any;
    const std::int64_t most = call_.where.context->device.properties().multiprocessors * kernels_.blocks_each;
    const auto blocks = static_cast<std::uint32_t>(std::clamp<std::int64_t>(lists_[kind]->units, 1, most));
    start(kernel, blocks, device::KernelArgs(*lists_[kind]));
    lists_[kind].reset();
  }
  void start(const ImageKernel& kernel, std::uint32_t blocks, const device::KernelArgs& args) const {
    launch(call_, kernel, {.grid = {blocks, 1, 1}, .block = {kThreads, 1, 1}}, args,
           prepared_.nbytes == 0 ? Accesses() : Accesses(&prepared_, 1));
  }

  const KernelCall& call_;
  const UpdateKernels& kernels_;
  StepInfo info_;
  device::Access prepared_;
  std::array<std::unique_ptr<TensorLists>, kKinds> lists_;
};

void run_lists(const KernelCall& call, const ListCall& of, const UpdateKernels& kernels, const StepInfo& info,
               device::Access prepared = {}) {
  UpdateLaunches launches(call, kernels, info, prepared);
  for (std::size_t i = 0; i < of.count; ++i) launches.add(of, i);
  launches.finish();
}

ListScalar scalar_of(const Tensor& x) {
  if (!x) return {};
  return {x.data(), x.dtype()};
}
// Learning rate, clip factor and skip are adjacent singles.
StepInfo step_info(const ListCall& of, std::size_t first, const double (&attributes)[4]) {
  StepInfo info;
  std::copy_n(attributes, 4, info.attributes);
  info.learning_rate = scalar_of(of.single(first));
  info.clip = scalar_of(of.single(first + 1));
  info.skip = scalar_of(of.single(first + 2));
  return info;
}

void run_add(const KernelCall& call) {
  StepInfo info;
  info.attributes[0] = call.as<ForeachAttributes>().by;
  run_lists(call, {call, 2, 0}, add_kernels, info);
}
void run_mul(const KernelCall& call) {
  const ListCall of(call, 1, 1);
  StepInfo info;
  info.attributes[0] = call.as<ForeachAttributes>().by;
  info.clip = scalar_of(of.single(0));
  run_lists(call, of, mul_kernels, info);
}

template <std::size_t kLists>
void run_sgd(const KernelCall& call) {
  const auto& how = call.as<SgdAttributes>();
  const ListCall of(call, kLists, 3);
  run_lists(call, of, kLists == 3 ? sgd_momentum_kernels : sgd_kernels,
            step_info(of, 0, {how.momentum, how.weight_decay, how.is_nesterov ? 1.0 : 0.0, 0}));
}
void run_lion(const KernelCall& call) {
  const auto& how = call.as<LionAttributes>();
  const ListCall of(call, 3, 3);
  run_lists(call, of, lion_kernels, step_info(of, 0, {how.beta1, how.beta2, how.weight_decay, 0}));
}

// A launch of two threads computes the powers of the step, which take longer than a block has.
void run_adamw(const KernelCall& call) {
  const auto& how = call.as<AdamWAttributes>();
  const ListCall of(call, 4, 4);
  const memory::Buffer values = scratch(call, sizeof(StepValues));
  StepInfo info = step_info(of, 1, {how.beta1, how.beta2, how.eps, how.weight_decay});
  const AdamWStep step{info, of.single(0).data_as<std::int64_t>(), call.outputs[3 * of.count].data_as<std::int64_t>(),
                       reinterpret_cast<StepValues*>(values.data())};
  const device::Access written[] = {device::writes(values.data(), sizeof(StepValues))};
  launch(call, adamw_step_kernel, {.grid = {1, 1, 1}, .block = {2, 1, 1}}, device::KernelArgs(step), written);
  info.prepared = step.values;
  run_lists(call, of, adamw_kernels, info, device::reads(values.data(), sizeof(StepValues)));
}

const tensor::KernelRegistration kAdd("foreach_add", "cuda", run_add);
const tensor::KernelRegistration kMul("foreach_mul", "cuda", run_mul);
const tensor::KernelRegistration kSgd("sgd", "cuda", run_sgd<2>);
const tensor::KernelRegistration kSgdMomentum("sgd_momentum", "cuda", run_sgd<3>);
const tensor::KernelRegistration kLion("lion", "cuda", run_lion);
const tensor::KernelRegistration kAdamW("adamw", "cuda", run_adamw);

}  // namespace
}  // namespace tessera::ops::cuda
