// Reductions on CUDA: prepares the arguments of the kernels in reduce_kernels.cu.
#include <algorithm>
#include <bit>
#include <memory>

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/reduce/cuda/lines.h"
#include "tessera/ops/reduce/cuda/reduce_call.h"
#include "tessera/ops/reduce/detail/reduce_loops.h"
#include "tessera/ops/reduce/reduce.h"

TESSERA_CUDA_IMAGE(reduce_kernels);

namespace tessera::ops::cuda {
namespace {

using detail::Compute;
using detail::ReduceLoop;
using tensor::KernelCall;

constexpr std::int64_t kManyBlocks = 2048;  // enough for every device, so that results depend only on sizes
constexpr std::int64_t kLanesUpTo = 1024;   // maximum elements per result that lanes of one warp reduce
constexpr std::int64_t kMinStretch = 4096;  // minimum elements per block
constexpr std::int64_t kMinColumns = 128;   // minimum elements per column

// The kernels of a step (reduce_steps.cuh) and an element type.
struct ReduceKernels {
  ReduceKernels(Image& image, const std::string& name)
      : rows(image, name + "_rows"), columns(image, name + "_columns"), stretches(image, name + "_stretches") {
    if (name.ends_with("_f32")) plain_rows = std::make_unique<ImageKernel>(image, name + "_plain_rows");
  }
  ImageKernel rows;
  ImageKernel columns;
  ImageKernel stretches;
  std::unique_ptr<ImageKernel> plain_rows;
};

Image image(TESSERA_CUDA_BYTES(reduce_kernels));
// In the order of Compute.
const ReduceKernels sum_kernels[] = {{image, "sum_f32"}, {image, "sum_f64"}, {image, "sum_i64"}, {image, "sum_c64"}};
const ReduceKernels fold_kernels[] = {{image, "fold_f32"}, {image, "fold_f64"}, {image, "fold_i64"}};
const ReduceKernels variance_kernels[] = {{image, "variance_f32"}, {image, "variance_f64"}};
const ReduceKernels logsumexp_kernels[] = {{image, "logsumexp_f32"}, {image, "logsumexp_f64"}};
const ReduceKernels search_kernels[] = {{image, "search_f32"}, {image, "search_f64"}, {image, "search_i64"}};

bool is_plain_sum(const ReduceLoop& of) {
  return of.fold == detail::Fold::kSum && of.map == detail::Map::kNone && of.finish != detail::Finish::kAtLeastOne;
}
const ReduceKernels& kernels_of(const ReduceLoop& of) {
  const auto compute = static_cast<std::size_t>(of.compute);
  if (of.map == detail::Map::kSquaredDeviation) return variance_kernels[compute];
  if (of.map == detail::Map::kExp) return logsumexp_kernels[compute];
  return is_plain_sum(of) ? sum_kernels[compute] : fold_kernels[compute];
}

// Elements of a vector. Sums of floats load 16 bytes, whatever the dtype; see fold_part() in reduce_kernels.cu.
int run_length(const ReduceLoop& of, const ReduceKernels& kernels) {
  const bool is_own = is_read_in_place(of.in, DType::kF32) && &kernels == sum_kernels;
  return is_own ? static_cast<int>(16 / itemsize(of.in)) : kRun;
}

// Returns true if every run is contiguous and aligned.
bool has_runs(const ReduceLoop& of, int length) {
  if (!is_read_in_place(of.in, detail::dtype_of(of.compute)) || of.is_empty) return false;
  if (of.reduced.step(0) != 1 || of.reduced.inner() % length != 0) return false;
  for (std::size_t d = 0; d + 1 < of.reduced.ndim(); ++d) {
    if (of.reduced.stride(0, d) % length != 0) return false;
  }
  for (std::size_t d = 0; d < of.kept.ndim(); ++d) {
    if (of.kept.stride(1, d) % length != 0) return false;
  }
  return is_aligned(of.from, of.in, length);
}

// Splits the elements of each result into chunks if there are too few results to keep a device busy.
void cut(ReduceCall& fold, std::int64_t blocks, std::int64_t least) {
  fold.stretch = std::max<std::int64_t>(ceil_div(fold.reduced, kLongestRun) * kLongestRun, kLongestRun);
  fold.stretches = 1;
  if (blocks >= kManyBlocks / 2 || fold.reduced < 2 * least) return;
  const std::int64_t wanted = std::min(ceil_div(kManyBlocks, blocks), ceil_div(fold.reduced, least));
  fold.stretch = ceil_div(ceil_div(fold.reduced, wanted), kLongestRun) * kLongestRun;
  fold.stretches = static_cast<std::int32_t>(ceil_div(fold.reduced, fold.stretch));
}

ReduceCall laid_out(const ReduceLoop& of, const ReduceKernels& kernels) {
  ReduceCall fold{};
  fold.from = of.from;
  fold.to = of.to;
  fold.results = of.kept.numel();
  fold.reduced = of.is_empty ? 0 : of.reduced.numel();
  fold.limit = detail::integer_limit(of.out, of.fold == detail::Fold::kMax);
  fold.parameter = of.parameter;
  fold.in = of.in;
  fold.out = of.out;
  fold.fold = of.fold;
  fold.map = of.map;
  fold.finish = of.finish;
  const int length = run_length(of, kernels);
  fold.has_vectors = !of.by_columns && has_runs(of, length);
  fold.kept = walk_over(of.kept, 1);
  fold.folded = walk_over(of.reduced, fold.has_vectors ? length : 1);
  return fold;
}

// Threads per result of the kernel by rows.
std::int32_t group_of(std::int64_t reduced) {
  if (reduced > kLanesUpTo) return reduced <= 2 * kLanesUpTo ? 64 : reduced <= 4 * kLanesUpTo ? 128 : kThreads;
  const auto runs = static_cast<std::uint64_t>(std::max<std::int64_t>(ceil_div(reduced, kRun), 1));
  return static_cast<std::int32_t>(std::min<std::uint64_t>(std::bit_ceil(runs), 32));
}

std::uint32_t blocks_by(std::int64_t results, std::int64_t per_block) {
  return static_cast<std::uint32_t>(ceil_div(results, per_block));
}

void launch_stretches(const KernelCall& call, const ReduceKernels& kernels, const ImageKernel& kernel, ReduceCall fold,
                      device::LaunchConfig config) {
  if (fold.stretches == 1) {
    launch(call, kernel, config, device::KernelArgs(fold));
    return;
  }
  constexpr std::int64_t kLargestValue = 24;  // bytes: moments
  const auto nbytes = static_cast<std::size_t>(fold.results * fold.stretches * kLargestValue);
  const memory::Buffer partial = scratch(call, nbytes);
  fold.partial = partial.data();
  config.grid[1] = static_cast<std::uint32_t>(fold.stretches);
  const device::Access written[] = {device::writes(partial.data(), nbytes)};
  launch(call, kernel, config, device::KernelArgs(fold), written);
  const device::Access read[] = {device::reads(partial.data(), nbytes)};
  fold.group = fold.stretches > 64 ? kThreads : 32;
  launch(call, kernels.stretches,
         {.grid = {blocks_by(fold.results, kThreads / fold.group), 1, 1}, .block = {kThreads, 1, 1}},
         device::KernelArgs(fold), read);
}

void launch_reduction(const KernelCall& call, const ReduceLoop& of, const ReduceKernels& kernels,
                      const ReduceMap& shard) {
  if (of.kept.numel() == 0) return;
  ReduceCall fold = laid_out(of, kernels);
  fold.shard = shard;
  if (of.by_columns) {
    const std::uint32_t blocks = blocks_by(fold.results, kColumnsAcross);
    cut(fold, blocks, kMinColumns);
    launch_stretches(call, kernels, kernels.columns, fold,
                     {.grid = {blocks, 1, 1}, .block = {kColumnsAcross, kColumnsDeep, 1}});
    return;
  }
  fold.group = group_of(fold.reduced);
  const std::uint32_t blocks = blocks_by(fold.results, kThreads / fold.group);
  cut(fold, blocks, kMinStretch);
  const bool is_plain = kernels.plain_rows != nullptr && fold.has_vectors && fold.folded.ndim == 1;
  launch_stretches(call, kernels, is_plain ? *kernels.plain_rows : kernels.rows, fold,
                   {.grid = {blocks, 1, 1}, .block = {kThreads, 1, 1}});
}

template <detail::ReductionOf kOf>
void reduce(const KernelCall& call) {
  detail::ReduceSpec of = kOf(call);
  of.loop.set_operands(call.outputs[0], call.inputs[0], detail::reduced_dims(call, of.dims));
  launch_reduction(call, of.loop, kernels_of(of.loop), {});
}

ReduceMap map_of(const KernelCall& call, const layout::IndexMap& map) {
  ReduceMap shard{};
  if (map == layout::IndexMap()) return shard;
  TESSERA_CHECK_AS(NotSupported, map.levels.size() <= kMaxReduceLevels, call.op.name(),
                   ": the dimension must be sharded into blocks at most ", kMaxReduceLevels, " times, got ",
                   map.levels.size());
  shard.offset = map.offset;
  shard.block = map.block;
  shard.levels = static_cast<std::int32_t>(map.levels.size());
  for (std::size_t l = 0; l < map.levels.size(); ++l) {
    shard.counts[l] = map.levels[l].count;
    shard.strides[l] = map.levels[l].stride;
  }
  return shard;
}

// argmax and argmin: the reduced dimension is one, so that the index of an element is its position in the loop.
template <detail::Fold kFold>
void search(const KernelCall& call) {
  const auto& attributes = call.as<ArgAttributes>();
  const tensor::IntList dims = {attributes.dim};
  ReduceLoop of;
  of.compute = detail::compute_of(call.inputs[0].dtype());
  of.fold = kFold;
  of.set_operands(call.outputs[0], call.inputs[0], detail::reduced_dims(call, dims));
  launch_reduction(call, of, search_kernels[static_cast<std::size_t>(of.compute)], map_of(call, attributes.map));
}

const tensor::KernelRegistration kSum("sum", "cuda", reduce<detail::sum_reduction>);
const tensor::KernelRegistration kMean("mean", "cuda", reduce<detail::mean_reduction>);
const tensor::KernelRegistration kProd("prod", "cuda", reduce<detail::prod_reduction>);
const tensor::KernelRegistration kAmax("amax", "cuda", reduce<detail::amax_reduction>);
const tensor::KernelRegistration kAmin("amin", "cuda", reduce<detail::amin_reduction>);
const tensor::KernelRegistration kAny("any", "cuda", reduce<detail::any_reduction>);
const tensor::KernelRegistration kAll("all", "cuda", reduce<detail::all_reduction>);
const tensor::KernelRegistration kVar("var", "cuda", reduce<detail::var_reduction>);
const tensor::KernelRegistration kNorm("norm", "cuda", reduce<detail::norm_reduction>);
const tensor::KernelRegistration kLogsumexp("logsumexp", "cuda", reduce<detail::logsumexp_reduction>);
const tensor::KernelRegistration kCountTargets("count_targets", "cuda", reduce<detail::count_targets_reduction>);
const tensor::KernelRegistration kArgmax("argmax", "cuda", search<detail::Fold::kMax>);
const tensor::KernelRegistration kArgmin("argmin", "cuda", search<detail::Fold::kMin>);
const tensor::KernelRegistration kDeviation("deviation", "cuda", detail::deviation_by_operators);

}  // namespace
}  // namespace tessera::ops::cuda
