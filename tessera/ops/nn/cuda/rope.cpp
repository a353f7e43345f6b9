// rope on CUDA.
#include "tessera/ops/nn/rope.h"

#include <algorithm>
#include <array>

#include "tessera/ops/nn/cuda/rope_call.h"
#include "tessera/ops/nn/cuda/rows_of.h"
#include "tessera/ops/nn/detail/rope_angles.h"
#include "tessera/tensor/call.h"

TESSERA_CUDA_IMAGE(rope_rows);

namespace tessera::ops::cuda {
namespace {

using tensor::KernelCall;

Image image(TESSERA_CUDA_BYTES(rope_rows));
// By RowFormKind.
const ImageKernel kernels[] = {
    {image, "rope_float"}, {image, "rope_bf16"}, {image, "rope_f16"}, {image, "rope_any"}, {image, "rope_double"}};

const ImageKernel tile_kernels[] = {{image, "rope_tiles_float"}, {image, "rope_tiles_bf16"}, {image, "rope_tiles_f16"}};

// Threads per multiprocessor for which a launch splits the vectors that share angles: a few waves, so that the last one
// costs little, and a thread computes angles for many vectors.
constexpr std::int64_t kThreadsEach = 2048;
constexpr std::int64_t kMaxGridRows = 65535;

void set_positions(const KernelCall& call, RopeCall& of) {
  const auto& how = call.as<RopeAttributes>();
  const Tensor& positions = call.inputs[1];
  of.offset = how.offset;
  if (positions) {
    of.positions = positions.data();
    of.positions_dtype = positions.dtype();
  } else if (!how.index.empty()) {
    const layout::IndexMap& map = how.index[0];
    TESSERA_CHECK_AS(NotSupported, map.levels.size() <= kMaxPositionLevels,
                     "rope: positions must be sharded into blocks at most ", kMaxPositionLevels, " times, got ",
                     map.levels.size());
    of.has_map = true;
    of.map_offset = map.offset;
    of.block = map.block;
    for (const layout::IndexMap::StrideLevel& level : map.levels) {
      of.counts[of.nlevels] = level.count;
      of.strides[of.nlevels++] = level.stride;
    }
  }
}

// Dimensions of vectors, innermost first. Adjacent dimensions are merged.
class Dims {
 public:
  void add(std::int64_t size, const std::array<std::int64_t, 3>& steps) {
    if (size == 1) return;
    if (!all_.empty()) {
      Dim& last = all_.back();
      bool fits = true;
      for (std::size_t o = 0; o < steps.size(); ++o) fits &= last.steps[o] * last.size == steps[o];
      if (fits) {
        last.size *= size;
        return;
      }
    }
    all_.push_back({size, steps});
  }
  // Returns the walk over all dimensions from `first` on.
  [[nodiscard]] Walk walk(std::size_t first = 0) const {
    Walk walk = empty_walk();
    for (std::size_t d = first; d < all_.size(); ++d) walk.add(all_[d].size, all_[d].steps.data(), 3);
    const std::int64_t none[3] = {};
    if (walk.ndim == 0) walk.add(1, none, 3);
    return walk;
  }

 private:
  struct Dim {
    std::int64_t size;
    std::array<std::int64_t, 3> steps;
  };
  std::vector<Dim> all_;
};

// Sets the walks. The dimensions with the shortest strides are innermost.
void set_walks(const KernelCall& call, RopeCall& of) {
  const Tensor& x = call.inputs[0];
  const Tensor& out = call.outputs[0];
  const Tensor& positions = call.inputs[1];
  const int dim = tensor::normalized_dim(call, call.as<RopeAttributes>().dim, x.ndim());
  std::vector<int> dims;
  for (int d = 0; d + 1 < x.ndim(); ++d) dims.push_back(d);
  const auto stride = [](const Tensor& tensor, int d) { return tensor.strides()[static_cast<std::size_t>(d)]; };
  std::ranges::stable_sort(dims, [&](int a, int b) { return stride(out, a) < stride(out, b); });
  const bool is_batched = positions && positions.ndim() == 2;
  Dims places;
  Dims shared;
  for (const int d : dims) {
    const bool has_angles = d == dim || (is_batched && d == 0);
    const std::int64_t in_positions = !positions ? 1 : stride(positions, is_batched && d == dim ? 1 : 0);
    (has_angles ? places : shared)
        .add(x.shape()[static_cast<std::size_t>(d)], {stride(out, d), stride(x, d), has_angles ? in_positions : 0});
  }
  of.places = places.walk();
  of.groups = shared.walk(1);
  const Walk all = shared.walk();
  of.group = all.sizes[0];
  for (int o = 0; o < 2; ++o) of.group_steps[o] = all.steps[0][o];
}

// Returns the form. An item has N pairs of adjacent elements.
RowFormKind form_of(const RopeCall& of) {
  const RowFormKind form = vector_form(of.dtype);
  if (form == RowFormKind::kDouble) return form;
  const std::int64_t n = elements_of(form);
  bool fits = of.x_step == 1 && of.out_step == 1 && of.pairs % n == 0 && of.length % n == 0 &&
              is_aligned(of.x, of.dtype, static_cast<int>(n)) && is_aligned(of.out, of.dtype, static_cast<int>(n));
  for (const std::int64_t step : of.group_steps) fits &= step % n == 0;
  for (const Walk* walk : {&of.places, &of.groups}) {
    for (int d = 0; d < walk->ndim; ++d) {
      fits &= walk->sizes[d] == 1 || (walk->steps[d][0] % n == 0 && walk->steps[d][1] % n == 0);
    }
  }
  return fits ? form : RowFormKind::kAny;
}

// Returns true if a warp can rotate tiles of whole vectors.
bool has_tiles(const RopeCall& of, RowFormKind form) {
  return elements_of(form) > 1 && of.length == 2 * of.pairs && of.pair_items * elements_of(form) == of.pairs &&
         of.items <= 16 && power_of_two(of.items) == of.items;
}

void run(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& out = call.outputs[0];
  if (x.numel() == 0) return;
  const auto& how = call.as<RopeAttributes>();
  const std::size_t last = x.shape().size() - 1;
  RopeCall of;
  of.x = x.data();
  of.out = out.data();
  of.dtype = x.dtype();
  of.is_interleaved = how.is_interleaved;
  of.is_inverse = how.is_inverse;
  of.length = x.size(-1);
  of.pairs = (how.width == 0 ? of.length : how.width) / 2;
  of.x_step = of.length == 1 ? 1 : x.strides()[last];
  of.out_step = of.length == 1 ? 1 : out.strides()[last];
  set_positions(call, of);
  set_walks(call, of);
  const RowFormKind form = form_of(of);
  const std::int64_t n = elements_of(form);
  const std::vector<double> frequencies = detail::rope_frequencies(how, 2 * of.pairs);
  const std::int64_t threads = call.where.context->device.properties().multiprocessors * kThreadsEach;
  std::int64_t first = 0;
  do {
    const std::int64_t count = std::min<std::int64_t>(of.pairs - first, kRopePairs);
    std::copy_n(frequencies.begin() + first, count, of.frequencies);
    of.first_pair = static_cast<std::int32_t>(first);
    of.pair_items = static_cast<std::int32_t>(count / n);
    first += count;
    const bool is_last = first == of.pairs;
    of.items = of.pair_items + (is_last ? (of.length - 2 * of.pairs + 2 * n - 1) / (2 * n) : 0);
    const std::int64_t total = of.items * of.places.numel;
    const std::int64_t splits = std::max<std::int64_t>(threads / total, 1);
    const auto launch_with = [&](const ImageKernel& kernel, std::int64_t blocks, std::int64_t parts,
                                 std::int64_t groups) {
      launch(call, kernel,
             {.grid = {static_cast<std::uint32_t>(blocks), static_cast<std::uint32_t>(parts),
                       static_cast<std::uint32_t>(groups)},
              .block = {kRopeThreads, 1, 1}},
             device::KernelArgs(of));
    };
    if (has_tiles(of, form)) {
      const std::int64_t tiles = (total + 31) / 32;  // a thread per item
      launch_with(tile_kernels[static_cast<std::size_t>(form)], (tiles + kRopeThreads / 32 - 1) / (kRopeThreads / 32),
                  std::min({splits, of.group * of.groups.numel, kMaxGridRows}), 1);
      continue;
    }
    // Whole groups first, because a thread loads vectors of one group together.
    const std::int64_t groups = std::min({splits, of.groups.numel, kMaxGridRows});
    const std::int64_t parts = std::clamp<std::int64_t>(splits / groups, 1, std::min(of.group, kMaxGridRows));
    launch_with(kernels[static_cast<std::size_t>(form)], (total + kRopeThreads - 1) / kRopeThreads, parts, groups);
  } while (first < of.pairs);
}

const tensor::KernelRegistration kRope("rope", "cuda", run);

}  // namespace
}  // namespace tessera::ops::cuda
