// index_add, index_sum, scatter_add and scatter_sum on CUDA, and thus the gradients of embedding and gather.
#include "tessera/ops/index/cuda/sum_items.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "tessera/ops/cuda/move_items.h"
#include "tessera/ops/index/cuda/rejecting_op.h"
#include "tessera/ops/index/detail/lines.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/reduce/detail/reduce_dims.h"
#include "tessera/ops/shape/detail/strided_loop.h"

TESSERA_CUDA_IMAGE(sort_places);
TESSERA_CUDA_IMAGE(sum_items);

namespace tessera::ops::cuda {
namespace {

using tensor::KernelCall;

Image sort_image(TESSERA_CUDA_BYTES(sort_places));
const ImageKernel keys_kernel(sort_image, "place_keys");
const ImageKernel small_kernel(sort_image, "sort_small");
const ImageKernel count_kernel(sort_image, "count_digits");
const ImageKernel scan_kernel(sort_image, "scan_digits");
const ImageKernel move_kernel(sort_image, "move_digits");
Image sum_image(TESSERA_CUDA_BYTES(sum_items));
const ImageKernel starts_kernel(sum_image, "find_starts");
const ImageKernel vectors_f32(sum_image, "sum_vectors_f32");
const ImageKernel vectors_bf16(sum_image, "sum_vectors_bf16");
const ImageKernel vectors_f16(sum_image, "sum_vectors_f16");

// The kernels of one form, by compute type.
struct ByCompute {
  explicit ByCompute(const std::string& form)
      : f32(sum_image, form + "_f32"),
        f64(sum_image, form + "_f64"),
        i64(sum_image, form + "_i64"),
        c64(sum_image, form + "_c64") {}
  [[nodiscard]] const ImageKernel& of(DType dtype) const {
    switch (detail::compute_of(dtype)) {
      case detail::Compute::kF32: return f32;
      case detail::Compute::kF64: return f64;
      case detail::Compute::kI64: return i64;
      case detail::Compute::kC64: break;
    }
    return c64;
  }
  ImageKernel f32, f64, i64, c64;
};
const ByCompute row_kernels("sum_rows");
const ByCompute head_kernels("sum_heads");
const ByCompute line_kernels("sum_lines");
const RejectingOp index_add_op("index_add");
const RejectingOp index_sum_op("index_sum");
const RejectingOp scatter_add_op("scatter_add");
const RejectingOp scatter_sum_op("scatter_sum");

// Memory of a call for arrays of words.
class Words {
 public:
  Words(const KernelCall& call, std::int64_t count)
      : memory_(scratch(call, static_cast<std::size_t>(count) * sizeof(std::uint32_t))),
        access_{device::updates(memory_.data(), memory_.nbytes())} {}
  std::uint32_t* take(std::int64_t count) {
    auto* words = reinterpret_cast<std::uint32_t*>(memory_.data()) + taken_;
    taken_ += count;
    return words;
  }
  [[nodiscard]] Accesses accesses() const { return access_; }

 private:
  memory::Buffer memory_;
  std::int64_t taken_ = 0;
  device::Access access_[1];
};

template <class Args>
void launch_with(const KernelCall& call, const ImageKernel& kernel, std::int64_t items, const Args& args,
                 Accesses others) {
  launch(call, kernel, {.grid = {blocks_for(call, items, kThreads), 1, 1}, .block = {kThreads, 1, 1}},
         device::KernelArgs(args), others);
}

std::int64_t tiles_of(std::int64_t count) { return (count + kSortTile - 1) / kSortTile; }

// Words that sort_places() takes.
std::int64_t sort_words(std::int64_t count) { return 5 * count + kDigits * (tiles_of(count) + 1); }

// Sorts the places of an index by key. Sets `keys`, `places` and `count` of the sums.
void sort_places(const KernelCall& call, PlaceKeys of, Words& words, ItemSums& sums) {
  const std::int64_t count = of.places.numel;
  sums.count = static_cast<std::uint32_t>(count);
  sums.nkeys = of.nkeys;
  sums.at_places = of.places;
  if (count == 0) return;
  of.to = words.take(count);
  launch_with(call, keys_kernel, count, of, words.accesses());
  RadixPass pass;
  pass.keys = of.to;
  pass.count = sums.count;
  std::uint32_t* keys[] = {words.take(count), words.take(count)};
  std::uint32_t* places[] = {words.take(count), words.take(count)};
  pass.blocks = static_cast<std::uint32_t>(tiles_of(count));
  pass.counts = words.take(kDigits * tiles_of(count));
  pass.totals = words.take(kDigits);
  const auto launch_pass = [&](const ImageKernel& kernel, std::uint32_t blocks, std::uint32_t threads) {
    launch(call, kernel, {.grid = {blocks, 1, 1}, .block = {threads, 1, 1}}, device::KernelArgs(pass),
           words.accesses());
  };
  const int passes = count <= kSmallSort ? 1 : (std::bit_width(of.nkeys) + kDigitBits - 1) / kDigitBits;
  for (int p = 0; p < passes; ++p) {
    pass.to_keys = keys[p % 2];
    pass.to_places = places[p % 2];
    pass.shift = p * kDigitBits;
    if (count <= kSmallSort) {
      launch_pass(small_kernel, 1, 1024);
    } else {
      launch_pass(count_kernel, pass.blocks, kThreads);
      launch_pass(scan_kernel, kDigits, kThreads);
      launch_pass(move_kernel, pass.blocks, kThreads);
    }
    pass.keys = pass.to_keys;
    pass.places = pass.to_places;
  }
  sums.keys = pass.keys;
  sums.places = pass.places;
}

void check_sizes(const KernelCall& call, std::int64_t places, std::int64_t keys) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  TESSERA_CHECK_AS(NotSupported, places < kMost && keys < kMost, call.op.name(),
                   ": index and indexed result must have fewer than 2^31 elements on cuda, got ", places, " and ", keys,
                   "; split the call");
}

// Operands of a call. `x` is empty for sums that start at zero.
struct Operands {
  const Tensor& out;
  Tensor x;
  const Tensor& index;
  const Tensor& source;
};

// Returns the kernel for vectors and groups the elements, if all arrays permit it; otherwise null.
const ImageKernel* use_vectors(ItemSums& of) {
  const ImageKernel* kernel = of.dtype == DType::kF32    ? &vectors_f32
                              : of.dtype == DType::kBF16 ? &vectors_bf16
                              : of.dtype == DType::kF16  ? &vectors_f16
                                                         : nullptr;
  if (kernel == nullptr) return nullptr;
  // Eight elements are whole words of 16 bytes in each of these dtypes; two bytes each are the most of them together.
  const void* x = of.x == nullptr ? of.to : of.x;
  if (items_together(of.outs, 2, {of.to, x, of.source}) != kSumVector) return nullptr;
  for (int d = 0; d < of.at_places.ndim; ++d) {
    if (of.at_places.steps[d][1] % kSumVector != 0) return nullptr;
  }
  of.outs = in_groups(of.outs, kSumVector, 3);
  return kernel;
}

// Each row of the result adds its slices. In the source, the dimensions of the index replace `dim` of the result.
void sum_slices(const KernelCall& call, const Operands& of, std::size_t dim, const CheckedIndex& index,
                const layout::IndexMap& map) {
  if (of.out.numel() == 0 && of.index.numel() == 0) return;
  const Tensor& like = of.x ? of.x : of.out;
  const std::int64_t rows = of.out.shape()[dim];
  check_sizes(call, of.index.numel(), rows);
  detail::StridedLoop<4> outs;  // rows first
  outs.add(rows, {of.out.strides()[dim], like.strides()[dim], 0, 1});
  detail::StridedLoop<3> places;
  for (std::size_t d = 0; d < of.out.shape().size(); ++d) {
    if (d == dim) continue;
    const std::size_t from = d < dim ? d : d + of.index.shape().size() - 1;
    outs.add(of.out.shape()[d], {of.out.strides()[d], like.strides()[d], of.source.strides()[from], 0});
  }
  for (std::size_t d = 0; d < of.index.shape().size(); ++d) {
    places.add(of.index.shape()[d], {of.index.strides()[d], of.source.strides()[dim + d], 0});
  }
  outs.collapse();
  places.collapse();
  PlaceKeys keys;
  keys.index = index;
  keys.map = device_map(map, call.op.name().c_str());
  keys.nkeys = static_cast<std::uint32_t>(rows);
  keys.places = walk_of(places);
  ItemSums sums;
  sums.to = of.out.data();
  sums.x = of.x ? of.x.data() : nullptr;
  sums.source = of.source.data();
  sums.dtype = of.out.dtype();
  sums.outs = walk_of(outs);
  Words words(call, sort_words(of.index.numel()) + rows + 1);
  sort_places(call, keys, words, sums);
  if (of.out.numel() == 0) return;
  sums.starts = words.take(rows + 1);
  launch_with(call, starts_kernel, rows + 1, sums, words.accesses());
  const ImageKernel* vectors = use_vectors(sums);
  const std::int64_t threads = vectors == nullptr ? sums.outs.numel : (sums.outs.numel + kSumsAhead - 1) / kSumsAhead;
  launch_with(call, vectors == nullptr ? row_kernels.of(sums.dtype) : *vectors, threads, sums, words.accesses());
}

// Adds single elements to a copy of x, or to zeros.
void sum_elements(const KernelCall& call, const Operands& of, std::size_t dim, const CheckedIndex& index) {
  const Tensor& out = of.out;
  if (!of.x) {
    constexpr std::byte kZero[16] = {};
    fill_items(call, out, std::span(kZero).first(itemsize(out.dtype())));
  } else if (out.data() != of.x.data()) {
    copy_items(call, out, of.x);
  }
  if (of.index.numel() == 0) return;
  const bool is_short = of.index.shape()[dim] <= kMaxSummedLine;
  if (!is_short) check_sizes(call, of.index.numel(), out.numel());
  // Offsets in the result of a short line, numbers of elements otherwise.
  std::vector<std::int64_t> steps(out.shape().size());
  Walk outs = empty_walk();
  std::int64_t step = 1;
  for (std::size_t d = out.shape().size(); d-- > 0; step *= out.shape()[d]) {
    const std::int64_t along = out.strides()[d];
    steps[d] = is_short ? along : step;
    outs.add(out.shape()[d], &along, 1);
  }
  Walk places = empty_walk();
  const auto add = [&](std::size_t d) {
    const std::int64_t along[] = {of.index.strides()[d], of.source.strides()[d], d == dim ? 0 : steps[d]};
    places.add(of.index.shape()[d], along, 3);
  };
  add(dim);  // lines are innermost
  for (std::size_t d = out.shape().size(); d-- > 0;) {
    if (d != dim) add(d);
  }
  if (is_short) {
    const LineSums sums{out.data(), of.source.data(), out.dtype(), index, steps[dim], of.index.shape()[dim], places};
    return launch_with(call, line_kernels.of(out.dtype()), places.numel, sums, {});
  }
  PlaceKeys keys;
  keys.index = index;
  keys.key_step = steps[dim];
  keys.nkeys = static_cast<std::uint32_t>(out.numel());
  keys.places = places;
  ItemSums sums;
  sums.to = out.data();
  sums.source = of.source.data();
  sums.dtype = out.dtype();
  sums.outs = outs;
  Words words(call, sort_words(of.index.numel()));
  sort_places(call, keys, words, sums);
  launch_with(call, head_kernels.of(out.dtype()), sums.count, sums, words.accesses());
}

CheckedIndex checked(const KernelCall& call, const RejectingOp& op, const Tensor& index, std::int64_t size,
                     std::size_t dim) {
  return {index.data(), index.dtype(), size, static_cast<std::int64_t>(dim), op.of(call)};
}

std::size_t dim_of(const KernelCall& call, std::int64_t dim, int ndim) {
  return static_cast<std::size_t>(tensor::normalized_dim(call, dim, ndim));
}

void run_index_add(const KernelCall& call) {
  const auto& a = call.as<IndexSliceAttributes>();
  const Operands of{call.outputs[0], call.inputs[0], call.inputs[1], call.inputs[2]};
  const std::size_t dim = dim_of(call, a.dim, of.x.ndim());
  const std::int64_t size = a.size < 0 ? of.x.shape()[dim] : a.size;
  sum_slices(call, of, dim, checked(call, index_add_op, of.index, size, dim), a.map);
}

void run_index_sum(const KernelCall& call) {
  const auto& a = call.as<IndexSumAttributes>();
  const Operands of{call.outputs[0], Tensor(), call.inputs[1], call.inputs[0]};
  const std::size_t dim = dim_of(call, a.dim, of.out.ndim());
  sum_slices(call, of, dim, checked(call, index_sum_op, of.index, a.size, dim), a.map);
}

void run_scatter_add(const KernelCall& call) {
  const Operands of{call.outputs[0], call.inputs[0], call.inputs[1], call.inputs[2]};
  const std::size_t dim = detail::line_dim(call, of.x, of.index, call.as<IndexAttributes>().dim);
  sum_elements(call, of, dim, checked(call, scatter_add_op, of.index, of.out.shape()[dim], dim));
}

void run_scatter_sum(const KernelCall& call) {
  const Operands of{call.outputs[0], Tensor(), call.inputs[1], call.inputs[0]};
  const std::size_t dim = dim_of(call, call.as<IndexSumAttributes>().dim, of.out.ndim());
  sum_elements(call, of, dim, checked(call, scatter_sum_op, of.index, of.out.shape()[dim], dim));
}

const tensor::KernelRegistration kIndexAdd("index_add", "cuda", run_index_add);
const tensor::KernelRegistration kIndexSum("index_sum", "cuda", run_index_sum);
const tensor::KernelRegistration kScatterAdd("scatter_add", "cuda", run_scatter_add);
const tensor::KernelRegistration kScatterSum("scatter_sum", "cuda", run_scatter_sum);

}  // namespace
}  // namespace tessera::ops::cuda
