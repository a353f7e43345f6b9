// sort and topk on CUDA: prepares the arguments of the kernels in order_lines.cu and selects a method by the length of
// a line and the number of results.
#include <algorithm>
#include <bit>

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/index/cuda/order_call.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/reduce/cuda/lines.h"
#include "tessera/tensor/call.h"

TESSERA_CUDA_IMAGE(order_lines);

namespace tessera::ops::cuda {
namespace {

using tensor::KernelCall;

Image image(TESSERA_CUDA_BYTES(order_lines));

struct OrderKernels {
  explicit OrderKernels(const std::string& name)
      : small(image, "order_small_" + name),
        count(image, "radix_count_" + name),
        distribute(image, "radix_distribute_" + name),
        select(image, "select_" + name) {}
  ImageKernel small, count, distribute, select;
};
const OrderKernels short_keys("u32");
const OrderKernels long_keys("u64");
const ImageKernel offsets_kernel(image, "radix_offsets");

constexpr std::int64_t kManyBlocks = 512;                     // enough to keep every device busy
constexpr std::int64_t kMinChunk = 8192;                      // minimum elements of a line per block of a selection
constexpr std::int64_t kMostScratch = std::int64_t{1} << 30;  // bytes for the lines that are sorted at a time
constexpr std::int64_t kMostBlocks = (std::int64_t{1} << 31) - 1;
constexpr int kDigitBits = 8;

OrderLines lines_of(const KernelCall& call, std::int64_t of_dim, std::int64_t count, bool is_descending) {
  const Tensor& x = call.inputs[0];
  const Tensor& values = call.outputs[0];
  const Tensor& indices = call.outputs[1];
  const auto dim = static_cast<std::size_t>(tensor::normalized_dim(call, of_dim, x.ndim()));
  OrderLines of{};
  of.length = 1;
  detail::StridedLoop<3> loop;
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    if (d == dim) {
      of.length = x.shape()[d];
      of.value_step = values.strides()[d];
      of.index_step = indices.strides()[d];
      of.from_step = x.strides()[d];
    } else {
      loop.add(x.shape()[d], {values.strides()[d], indices.strides()[d], x.strides()[d]});
    }
  }
  loop.collapse();
  TESSERA_CHECK_AS(NotSupported, of.length < (std::int64_t{1} << 32), call.op.name(), ": dimension ", dim,
                   " must have fewer than 2^32 elements on cuda, got ", of.length);
  of.from = x.data();
  of.values = values.data();
  of.indices = indices.data_as<std::int64_t>();
  of.lines = loop.numel();
  of.count = count;
  of.dtype = x.dtype();
  of.is_descending = is_descending;
  of.key_bits = static_cast<std::int32_t>(8 * itemsize(x.dtype()));
  of.kept = walk_over(loop);
  return of;
}

std::uint32_t grid(const KernelCall& call, std::int64_t blocks) {
  TESSERA_CHECK_AS(NotSupported, blocks <= kMostBlocks, call.op.name(), ": must have at most ", kMostBlocks,
                   " blocks on cuda, got ", blocks, "; split the tensor");
  return static_cast<std::uint32_t>(blocks);
}

void order_small(const KernelCall& call, const OrderKernels& kernels, const OrderLines& of) {
  const auto group = static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint64_t>(of.length)));
  const std::int64_t lines_each = std::max<std::int64_t>(1024 / group, 1);
  launch(call, kernels.small, grid(call, ceil_div(of.lines, lines_each)), kThreads, of, group);
}

// Memory that a sort of some lines needs besides its operands: two orders of keys and places, and counts.
struct RadixMemory {
  RadixMemory(const KernelCall& call, const OrderLines& of, std::int64_t lines, std::int64_t tiles,
              std::int64_t key_nbytes)
      : elements(lines * of.length),
        keys(elements * key_nbytes),
        places(elements * 4),
        counts(lines * kDigits * tiles * 4),
        totals(lines * kDigits * 4),
        buffer(scratch(call, static_cast<std::size_t>(2 * keys + 2 * places + counts + totals))) {}

  [[nodiscard]] void* keys_at(int order) const { return buffer.data() + order * keys; }
  [[nodiscard]] std::uint32_t* places_at(int order) const { return words(2 * keys + order * places); }
  [[nodiscard]] std::uint32_t* counts_at() const { return words(2 * keys + 2 * places); }
  [[nodiscard]] std::uint32_t* totals_at() const { return words(2 * keys + 2 * places + counts); }
  [[nodiscard]] std::uint32_t* words(std::int64_t at) const {
    return reinterpret_cast<std::uint32_t*>(buffer.data() + at);
  }

  std::int64_t elements, keys, places, counts, totals;  // bytes, except the first
  memory::Buffer buffer;
};

void sort_lines(const KernelCall& call, const OrderKernels& kernels, const OrderLines& of, std::int64_t first,
                std::int64_t lines, std::int64_t tiles, const RadixMemory& memory) {
  RadixPass pass{};
  pass.first = first;
  pass.tiles = static_cast<std::int32_t>(tiles);
  pass.counts = memory.counts_at();
  pass.totals = memory.totals_at();
  const device::Access access[] = {device::writes(memory.buffer.data(), memory.buffer.nbytes())};
  const auto start = [&](const ImageKernel& kernel, std::int64_t blocks, const device::KernelArgs& args) {
    launch(call, kernel, {.grid = {grid(call, blocks), 1, 1}, .block = {kThreads, 1, 1}}, args, access);
  };
  const int passes = of.key_bits / kDigitBits;
  for (int p = 0; p < passes; ++p) {
    pass.shift = p * kDigitBits;
    pass.is_first = p == 0;
    pass.is_last = p + 1 == passes;
    pass.keys_in = memory.keys_at(p % 2);
    pass.places_in = memory.places_at(p % 2);
    pass.keys_out = memory.keys_at((p + 1) % 2);
    pass.places_out = memory.places_at((p + 1) % 2);
    start(kernels.count, lines * tiles, device::KernelArgs(of, pass));
    start(offsets_kernel, lines * kDigits, device::KernelArgs(pass));
    start(kernels.distribute, lines * tiles, device::KernelArgs(of, pass));
  }
}

void order_long(const KernelCall& call, const OrderKernels& kernels, const OrderLines& of) {
  const std::int64_t key_nbytes = of.key_bits > 32 ? 8 : 4;
  const std::int64_t tiles = ceil_div(of.length, radix_tile(key_nbytes));
  const std::int64_t each = 2 * of.length * (key_nbytes + 4) + kDigits * 4 * (tiles + 1);
  const std::int64_t lines = std::clamp<std::int64_t>(kMostScratch / each, 1, of.lines);
  const RadixMemory memory(call, of, lines, tiles, key_nbytes);
  for (std::int64_t first = 0; first < of.lines; first += lines) {
    sort_lines(call, kernels, of, first, std::min(lines, of.lines - first), tiles, memory);
  }
}

// topk of long lines. A few lines are split into chunks, whose results are candidates of a second selection.
void order_best(const KernelCall& call, const OrderKernels& kernels, const OrderLines& of) {
  Selection how{};
  how.length = of.length;
  const std::int64_t least = std::max(kMinChunk, 4 * of.count);
  const std::int64_t wanted = std::max<std::int64_t>(std::min(ceil_div(kManyBlocks, of.lines), of.length / least), 1);
  how.chunk = ceil_div(of.length, wanted);
  how.chunks = static_cast<std::int32_t>(ceil_div(of.length, how.chunk));
  const std::uint32_t blocks = grid(call, of.lines * how.chunks);
  if (how.chunks == 1) {
    launch(call, kernels.select, blocks, kThreads, of, how);
    return;
  }
  const std::int64_t key_nbytes = of.key_bits > 32 ? 8 : 4;
  const std::int64_t candidates = of.lines * how.chunks * of.count;
  const memory::Buffer buffer = scratch(call, static_cast<std::size_t>(candidates * (key_nbytes + 4)));
  const auto start = [&](std::uint32_t count, const device::Access& access) {
    launch(call, kernels.select, {.grid = {count, 1, 1}, .block = {kThreads, 1, 1}}, device::KernelArgs(of, how),
           Accesses(&access, 1));
  };
  how.keys_out = buffer.data();
  how.places_out = reinterpret_cast<std::uint32_t*>(buffer.data() + candidates * key_nbytes);
  start(blocks, device::writes(buffer.data(), buffer.nbytes()));
  how.keys_in = how.keys_out;
  how.places_in = how.places_out;
  how.keys_out = nullptr;
  how.places_out = nullptr;
  how.length = how.chunk = how.chunks * of.count;
  how.chunks = 1;
  start(grid(call, of.lines), device::reads(buffer.data(), buffer.nbytes()));
}

void order(const KernelCall& call, const OrderLines& of) {
  if (of.lines == 0 || of.count == 0) return;
  const OrderKernels& kernels = of.key_bits > 32 ? long_keys : short_keys;
  if (of.length <= kBlockOrder) return order_small(call, kernels, of);
  if (of.count <= kBlockOrder && of.count < of.length) return order_best(call, kernels, of);
  order_long(call, kernels, of);
}

void run_topk(const KernelCall& call) {
  const auto& attributes = call.as<TopkAttributes>();
  order(call, lines_of(call, attributes.dim, attributes.k, attributes.is_largest));
}
void run_sort(const KernelCall& call) {
  const auto& attributes = call.as<SortAttributes>();
  const Tensor& x = call.inputs[0];
  const std::int64_t count = x.ndim() == 0 ? 1 : x.size(tensor::normalized_dim(call, attributes.dim, x.ndim()));
  order(call, lines_of(call, attributes.dim, count, attributes.is_descending));
}

const tensor::KernelRegistration kTopk("topk", "cuda", run_topk);
const tensor::KernelRegistration kSort("sort", "cuda", run_sort);

}  // namespace
}  // namespace tessera::ops::cuda
