// foreach_norm and grad_norm on CUDA: launches of norm_lists.cu. Chunks of all tensors are numbered in the order of the
// launches.
#include "tessera/ops/update/cuda/list_calls.h"
#include "tessera/ops/update/update.h"

TESSERA_CUDA_IMAGE(norm_lists);

namespace tessera::ops::cuda {
namespace {

using detail::ListCall;
using tensor::KernelCall;

Image image(TESSERA_CUDA_BYTES(norm_lists));
const ImageKernel chunks_kernel(image, "norm_chunks");
const ImageKernel strided_kernel(image, "norm_strided_chunks");
const ImageKernel each_kernel(image, "norm_of_each");
const ImageKernel all_kernel(image, "norm_of_all");

constexpr std::uint32_t kFinalThreads = 1024;

std::int64_t chunks_of(std::int64_t numel) { return (numel + kNormChunk - 1) / kNormChunk; }

device::LaunchConfig in_blocks(std::int64_t blocks) {
  return {.grid = {static_cast<std::uint32_t>(blocks), 1, 1}, .block = {kThreads, 1, 1}};
}

// Reduces the chunks of all tensors.
class NormLaunches {
 public:
  // is_each: also writes the norm of each tensor to the result at its index.
  NormLaunches(const KernelCall& call, double p, bool is_each)
      : call_(call), of_(call, 1, 0), norms_{p, nullptr, 0}, is_each_(is_each) {
    for (std::size_t i = 0; i < of_.count; ++i) chunks_ += chunks_of(of_.at(0, i).numel());
    partial_ = scratch(call, sizeof(double) * static_cast<std::size_t>(std::max<std::int64_t>(chunks_, 1)));
    norms_.partial = reinterpret_cast<double*>(partial_.data());
    for (std::size_t i = 0; i < of_.count; ++i) add(i);
    if (lists_) launch_lists();
  }
  [[nodiscard]] const NormCall& norms() const { return norms_; }
  [[nodiscard]] std::int64_t chunks() const { return chunks_; }
  [[nodiscard]] device::Access reads() const { return device::reads(partial_.data(), partial_.nbytes()); }

 private:
  void add(std::size_t i) {
    bool is_dense = true;
    const std::size_t outputs = is_each_ ? 1 : 0;
    ListTensor tensor = list_tensor(of_, i, 1, outputs, is_dense);
    const Tensor& x = of_.at(0, i);
    tensor.has_vectors = is_aligned(x.data(), x.dtype(), 16);
    if (!x.is_contiguous()) {
      launch_strided(i, tensor);
      return;
    }
    if (lists_ && is_full(*lists_, chunks_of(tensor.numel))) launch_lists();
    if (!lists_) lists_ = empty_lists({});
    append(*lists_, tensor, chunks_of(tensor.numel));
  }

  void launch_lists() {
    const std::int32_t chunks = lists_->units;
    const device::Access written[] = {device::writes(partial_.data(), partial_.nbytes())};
    if (chunks > 0) launch(call_, chunks_kernel, in_blocks(chunks), device::KernelArgs(*lists_, norms_), written);
    finish(*lists_);
    lists_.reset();
  }
  void launch_strided(std::size_t i, const ListTensor& tensor) {
    const std::int64_t chunks = chunks_of(tensor.numel);
    const StridedTensor strided = strided_tensor(of_, i, 1, 0, {}, tensor);
    const device::Access written[] = {device::writes(partial_.data(), partial_.nbytes())};
    if (lists_) launch_lists();  // its chunks come first
    if (chunks > 0) launch(call_, strided_kernel, in_blocks(chunks), device::KernelArgs(strided, norms_), written);
    const auto lists = empty_lists({});
    append(*lists, tensor, chunks);
    finish(*lists);
  }
  // Joins the chunks of each tensor, if requested, and moves on to the next chunks.
  void finish(const TensorLists& lists) {
    const device::Access read[] = {reads()};
    if (is_each_) launch(call_, each_kernel, in_blocks(lists.count), device::KernelArgs(lists, norms_), read);
    norms_.first += lists.units;
  }

  const KernelCall& call_;
  ListCall of_;
  NormCall norms_;
  bool is_each_;
  std::int64_t chunks_ = 0;
  memory::Buffer partial_;
  std::unique_ptr<TensorLists> lists_;
};

void run_each(const KernelCall& call) { NormLaunches(call, call.as<ForeachNormAttributes>().p, true); }

void run_all(const KernelCall& call) {
  const auto& how = call.as<GradNormAttributes>();
  const NormLaunches launches(call, how.p, false);
  const device::Access read[] = {launches.reads()};
  launch(
      call, all_kernel, {.grid = {1, 1, 1}, .block = {kFinalThreads, 1, 1}},
      device::KernelArgs(launches.norms(), launches.chunks(), how.max_norm, static_cast<void*>(call.outputs[0].data()),
                         static_cast<void*>(call.outputs[1].data()), call.outputs[0].dtype()),
      read);
}

const tensor::KernelRegistration kForeachNorm("foreach_norm", "cuda", run_each);
const tensor::KernelRegistration kGradNorm("grad_norm", "cuda", run_all);

}  // namespace
}  // namespace tessera::ops::cuda
