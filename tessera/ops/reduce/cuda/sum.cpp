// sum and mean on CUDA: prepares the arguments of the kernels in reduce_kernels.cu.
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/reduce/cuda/reduce_call.h"
#include "tessera/ops/reduce/detail/reduce_dims.h"
#include "tessera/ops/reduce/reduce.h"

TESSERA_CUDA_IMAGE(reduce_kernels);

namespace tessera::ops::cuda {
namespace {

using detail::ReduceLoop;
using tensor::KernelCall;

constexpr std::int64_t kManyBlocks = 1024;  // enough for every device, so that sums depend only on sizes
constexpr std::int64_t kLanesUpTo = 1024;   // maximum elements per result that some lanes of a warp sum
constexpr std::int64_t kMinStretch = 4096;  // minimum elements per block
constexpr std::int64_t kMinColumns = 128;   // minimum elements per column

struct SumKernels {
  SumKernels(Image& image, const std::string& name)
      : blocks(image, "sum_" + name + "_blocks"),
        lanes(image, "sum_" + name + "_lanes"),
        columns(image, "sum_" + name + "_columns"),
        stretches(image, "sum_" + name + "_stretches") {}
  ImageKernel blocks;
  ImageKernel lanes;
  ImageKernel columns;
  ImageKernel stretches;
};

Image image(TESSERA_CUDA_BYTES(reduce_kernels));
const SumKernels kernels_by_compute[] = {{image, "f32"}, {image, "f64"}, {image, "i64"}, {image, "c64"}};

// Converts a loop to a Walk, innermost dimension first. Groups `width` elements of the innermost dimension.
template <std::size_t N>
Walk walk_over(const detail::StridedLoop<N>& loop, std::int64_t width) {
  Walk walk = empty_walk();
  for (std::size_t d = loop.ndim(); d-- > 0;) {
    std::int64_t along[N];
    const std::int64_t taken = d + 1 == loop.ndim() ? width : 1;
    for (std::size_t i = 0; i < N; ++i) along[i] = loop.stride(i, d) * taken;
    walk.add(loop.size(d) / taken, along, static_cast<int>(N));
  }
  return walk;
}

// Returns true if every run of kRun elements is contiguous and aligned.
bool has_runs(const ReduceLoop& of) {
  if (!is_read_in_place(of.in, detail::dtype_of(of.compute)) || of.is_empty) return false;
  if (of.reduced.step(0) != 1 || of.reduced.inner() % kRun != 0) return false;
  for (std::size_t d = 0; d + 1 < of.reduced.ndim(); ++d) {
    if (of.reduced.stride(0, d) % kRun != 0) return false;
  }
  for (std::size_t d = 0; d < of.kept.ndim(); ++d) {
    if (of.kept.stride(1, d) % kRun != 0) return false;
  }
  return is_aligned(of.from, of.in, kRun);
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Splits the elements of each result into chunks if there are too few results to keep a device busy.
void cut(ReduceCall& fold, std::int64_t blocks, std::int64_t least) {
  fold.stretch = std::max<std::int64_t>(ceil_div(fold.reduced, kRun) * kRun, kRun);
  fold.stretches = 1;
  if (blocks >= kManyBlocks / 2 || fold.reduced < 2 * least) return;
  const std::int64_t wanted = std::min(ceil_div(kManyBlocks, blocks), ceil_div(fold.reduced, least));
  fold.stretch = ceil_div(ceil_div(fold.reduced, wanted), kRun) * kRun;
  fold.stretches = static_cast<std::int32_t>(ceil_div(fold.reduced, fold.stretch));
}

ReduceCall laid_out(const ReduceLoop& of) {
  ReduceCall fold{};
  fold.from = of.from;
  fold.to = of.to;
  fold.results = of.kept.numel();
  fold.reduced = of.is_empty ? 0 : of.reduced.numel();
  fold.has_divisor = of.finish == detail::Finish::kDivide;
  fold.divisor = of.parameter;
  fold.in = of.in;
  fold.out = of.out;
  fold.is_truth = of.map == detail::Map::kNonZero;
  fold.has_vectors = !of.by_columns && has_runs(of);
  fold.kept = walk_over(of.kept, 1);
  fold.folded = walk_over(of.reduced, fold.has_vectors ? kRun : 1);
  return fold;
}

void launch_stretches(const KernelCall& call, const SumKernels& kernels, const ImageKernel& kernel, ReduceCall fold,
                      device::LaunchConfig config) {
  if (fold.stretches == 1) {
    launch(call, kernel, config, device::KernelArgs(fold));
    return;
  }
  constexpr std::int64_t kLargestSum = 16;  // bytes: a complex double
  const auto nbytes = static_cast<std::size_t>(fold.results * fold.stretches * kLargestSum);
  const memory::Buffer partial = scratch(call, nbytes);
  fold.partial = partial.data();
  config.grid[1] = static_cast<std::uint32_t>(fold.stretches);
  const device::Access written[] = {device::writes(partial.data(), nbytes)};
  launch(call, kernel, config, device::KernelArgs(fold), written);
  const device::Access read[] = {device::reads(partial.data(), nbytes)};
  const auto blocks = static_cast<std::uint32_t>(ceil_div(fold.results, kThreads / 32));
  launch(call, kernels.stretches, {.grid = {blocks, 1, 1}, .block = {kThreads, 1, 1}}, device::KernelArgs(fold), read);
}

void launch_sum(const KernelCall& call, const tensor::IntList& dims, ReduceLoop of) {
  of.set_operands(call.outputs[0], call.inputs[0], detail::reduced_dims(call, dims));
  if (of.kept.numel() == 0) return;
  const SumKernels& kernels = kernels_by_compute[static_cast<std::size_t>(of.compute)];
  ReduceCall fold = laid_out(of);
  if (of.by_columns) {
    const std::int64_t blocks = ceil_div(fold.results, kColumnsAcross);
    cut(fold, blocks, kMinColumns);
    launch_stretches(call, kernels, kernels.columns, fold,
                     {.grid = {static_cast<std::uint32_t>(blocks), 1, 1}, .block = {kColumnsAcross, kColumnsDeep, 1}});
  } else if (fold.reduced <= kLanesUpTo) {
    cut(fold, kManyBlocks, kMinStretch);
    const auto runs = static_cast<std::uint64_t>(std::max<std::int64_t>(ceil_div(fold.reduced, kRun), 1));
    fold.group = static_cast<std::int32_t>(std::min<std::uint64_t>(std::bit_ceil(runs), 32));
    const auto blocks = static_cast<std::uint32_t>(ceil_div(fold.results, kThreads / fold.group));
    launch_stretches(call, kernels, kernels.lanes, fold, {.grid = {blocks, 1, 1}, .block = {kThreads, 1, 1}});
  } else {
    cut(fold, fold.results, kMinStretch);
    launch_stretches(call, kernels, kernels.blocks, fold,
                     {.grid = {static_cast<std::uint32_t>(fold.results), 1, 1}, .block = {kThreads, 1, 1}});
  }
}

void run_sum(const KernelCall& call) {
  const auto& attributes = call.as<SumAttributes>();
  ReduceLoop of;
  of.compute = detail::compute_of(attributes.dtype);
  if (attributes.dtype == DType::kBool) of.map = detail::Map::kNonZero;  // the sum of truth values is their logical or
  launch_sum(call, attributes.dims, std::move(of));
}

void run_mean(const KernelCall& call) {
  const auto& attributes = call.as<MeanAttributes>();
  ReduceLoop of;
  of.compute = detail::compute_of(call.inputs[0].dtype());
  of.finish = detail::Finish::kDivide;
  of.parameter =
      static_cast<double>(attributes.count >= 0 ? attributes.count
                                                : detail::reduced_count(call.inputs[0].shape(),
                                                                        detail::reduced_dims(call, attributes.dims)));
  launch_sum(call, attributes.dims, std::move(of));
}

const tensor::KernelRegistration kSumOnCuda("sum", "cuda", run_sum);
const tensor::KernelRegistration kMeanOnCuda("mean", "cuda", run_mean);

}  // namespace
}  // namespace tessera::ops::cuda
