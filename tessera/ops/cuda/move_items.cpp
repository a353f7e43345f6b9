#include "tessera/ops/cuda/move_items.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tessera/ops/cuda/moved_arrays.h"
#include "tessera/ops/detail/loops.h"

TESSERA_CUDA_IMAGE(move_items);

namespace tessera::ops::cuda {
namespace {

using detail::Loop;

// Smallest extents of both contiguous dimensions for which tiles pay off.
constexpr std::int64_t kMinTransposed = 16;

Image image(TESSERA_CUDA_BYTES(move_items));
const ImageKernel copy_kernels[] = {{image, "copy_items_1"},
                                    {image, "copy_items_2"},
                                    {image, "copy_items_4"},
                                    {image, "copy_items_8"},
                                    {image, "copy_items_16"}};
const ImageKernel fill_kernels[] = {{image, "fill_items_1"},
                                    {image, "fill_items_2"},
                                    {image, "fill_items_4"},
                                    {image, "fill_items_8"},
                                    {image, "fill_items_16"}};
const ImageKernel transpose_kernels[] = {{image, "transpose_items_1"},
                                         {image, "transpose_items_2"},
                                         {image, "transpose_items_4"},
                                         {image, "transpose_items_8"},
                                         {image, "transpose_items_16"}};
const ImageKernel transpose_group_kernels[] = {{image, "transpose_groups_1"},
                                               {image, "transpose_groups_2"},
                                               {image, "transpose_groups_4"},
                                               {image, "transpose_groups_8"},
                                               {image, "transpose_groups_16"}};
const ImageKernel segments_kernel(image, "move_segments");

// Returns the index of the kernel; sizes are powers of two.
std::size_t index_of(std::int64_t nbytes) {
  return static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(nbytes)));
}

bool is_one_run(const Walk& walk, int operands) {
  if (walk.ndim > 1) return false;
  for (int o = 0; o < operands; ++o) {
    if (walk.numel > 1 && walk.steps[0][o] != 1) return false;
  }
  return true;
}

// Returns the outermost dimension along which an operand is contiguous; -1 if none is.
int contiguous_dim(const Walk& walk, int operand) {
  for (int d = walk.ndim; d-- > 0;) {
    if (walk.sizes[d] > 1 && walk.steps[d][operand] == 1) return d;
  }
  return -1;
}

// Returns true if both sides can be accessed in vectors of 16 bytes.
bool has_vectors(const TransposedMove& of, std::int64_t item) {
  const std::int64_t together = 16 / item;
  bool all = of.nx % together == 0 && of.ny % together == 0 && of.to_x % together == 0 && of.from_y % together == 0;
  for (const void* address : {static_cast<const void*>(of.to), of.from}) {
    all = all && reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
  }
  for (int o = 0; o < 2; ++o) {
    all = all && of.rest.first[o] % together == 0;
    for (int d = 0; d < of.rest.ndim; ++d) all = all && of.rest.steps[d][o] % together == 0;
  }
  return all;
}

// Returns the transposed copy that a move is, if its tiles pay off.
std::optional<TransposedMove> transposed(const ItemMove& move, std::int64_t item) {
  const Walk& walk = move.walk;
  const int y = contiguous_dim(walk, 0);
  const int x = contiguous_dim(walk, 1);
  if (move.from == nullptr || x < 0 || y < 0 || x == y) return std::nullopt;
  if (walk.steps[x][0] == 1 || walk.steps[y][1] == 1) return std::nullopt;
  if (std::min(walk.sizes[x], walk.sizes[y]) < kMinTransposed) return std::nullopt;
  TransposedMove of{.to = move.to,
                    .from = move.from,
                    .nx = walk.sizes[x],
                    .ny = walk.sizes[y],
                    .to_x = walk.steps[x][0],
                    .from_y = walk.steps[y][1],
                    .tiles_x = 0,
                    .tiles_y = 0,
                    .tiles = 0,
                    .has_vectors = false,
                    .rest = empty_walk()};
  for (int o = 0; o < 2; ++o) of.rest.first[o] = walk.first[o];
  for (int d = 0; d < walk.ndim; ++d) {
    if (d != x && d != y) of.rest.add(walk.sizes[d], walk.steps[d], 2);
  }
  const std::int64_t none[2] = {};
  if (of.rest.ndim == 0) of.rest.add(1, none, 2);
  of.has_vectors = has_vectors(of, item);
  const std::int64_t side = transposed_side(item, of.has_vectors);
  of.tiles_x = (of.nx + side - 1) / side;
  of.tiles_y = (of.ny + side - 1) / side;
  of.tiles = of.tiles_x * of.tiles_y * of.rest.numel;
  return of;
}

std::uint32_t grid_of(std::int64_t blocks) {
  return static_cast<std::uint32_t>(std::min<std::int64_t>(blocks, INT32_MAX));
}

struct alignas(16) Sixteen {
  std::byte bytes[16];
};

// Repeats an item to 16 bytes.
Sixteen repeated(std::span<const std::byte> item) {
  Sixteen value{};
  for (std::size_t i = 0; i < sizeof value.bytes && !item.empty(); ++i) value.bytes[i] = item[i % item.size()];
  return value;
}

// Returns four bytes that yield the item if repeated; nullopt if none do.
std::optional<std::uint32_t> pattern_of(const Sixteen& item) {
  std::uint32_t pattern = 0;
  std::memcpy(&pattern, item.bytes, sizeof pattern);
  for (std::size_t i = 4; i < sizeof item.bytes; i += 4) {
    if (std::memcmp(&item.bytes[i], &pattern, sizeof pattern) != 0) return std::nullopt;
  }
  return pattern;
}

void launch_fill(const tensor::KernelCall& call, const ItemMove& move, std::int64_t item, const Sixteen& bytes) {
  const std::uint32_t blocks = blocks_for(call, move.walk.numel, kThreads);
  const auto launch_with = [&](auto value) {
    std::memcpy(&value, bytes.bytes, sizeof value);
    launch(call, fill_kernels[index_of(item)], blocks, kThreads, move.walk, static_cast<void*>(move.to), value);
  };
  switch (item) {
    case 1: return launch_with(std::uint8_t{});
    case 2: return launch_with(std::uint16_t{});
    case 4: return launch_with(std::uint32_t{});
    case 8: return launch_with(std::uint64_t{});
    default: return launch_with(Sixteen{});
  }
}

// Segments that are launched together.
class Segments {
 public:
  Segments(const tensor::KernelCall& call, const Sixteen& value) : call_(call) {
    std::memcpy(table_.value, value.bytes, sizeof table_.value);
  }
  // Returns false if the move is not a segment.
  bool add(const ItemMove& move, std::int64_t nbytes) {
    const Walk& walk = move.walk;
    if (walk.ndim > kMaxSegmentDims || !walk.is_small) return false;
    if (table_.count == kMaxSegments) flush();
    Segment& of = table_.segments[table_.count++];
    of = {};
    of.to = move.to;
    of.from = move.from;
    of.first_block = blocks_;
    of.numel = static_cast<std::uint32_t>(walk.numel);
    of.nbytes = static_cast<std::int32_t>(nbytes);
    of.ndim = walk.ndim;
    for (int o = 0; o < 2; ++o) of.first[o] = walk.first[o];
    for (int d = 0; d < walk.ndim; ++d) {
      of.sizes[d] = static_cast<std::uint32_t>(walk.sizes[d]);
      of.dividers[d] = walk.dividers[d];
      for (int o = 0; o < 2; ++o) of.steps[d][o] = walk.steps[d][o];
    }
    constexpr std::int64_t kPerBlock = std::int64_t{kThreads} * kItemsEach;
    blocks_ += (walk.numel + kPerBlock - 1) / kPerBlock;
    return true;
  }
  void flush() {
    if (blocks_ > 0) launch(call_, segments_kernel, static_cast<std::uint32_t>(blocks_), kThreads, table_);
    table_.count = 0;
    blocks_ = 0;
  }

 private:
  const tensor::KernelCall& call_;
  SegmentTable table_{};
  std::int64_t blocks_ = 0;  // at most 2^21 per segment
};

}  // namespace

void move_items(const tensor::KernelCall& call, std::span<const ItemMove> moves, std::int64_t item,
                std::span<const std::byte> value) {
  const Sixteen bytes = repeated(value);
  Segments segments(call, bytes);
  for (ItemMove move : moves) {
    if (move.walk.numel == 0) continue;
    if (const auto turned = transposed(move, item)) {
      const auto& kernels = turned->has_vectors ? transpose_group_kernels : transpose_kernels;
      launch(call, kernels[index_of(item)], grid_of(turned->tiles), kThreads, *turned);
      continue;
    }
    // A fill reads nothing.
    const int operands = move.from == nullptr ? 1 : 2;
    const std::int64_t together = operands == 2 ? items_together(move.walk, item, {move.to, move.from})
                                                : items_together(move.walk, item, {move.to});
    move.walk = in_groups(move.walk, together, operands);
    const std::int64_t nbytes = item * together;
    if (segments.add(move, nbytes)) continue;
    if (operands == 1) {
      launch_fill(call, move, nbytes, bytes);
      continue;
    }
    launch(call, copy_kernels[index_of(nbytes)], blocks_for(call, move.walk.numel, kThreads * kItemsEach), kThreads,
           move.walk, static_cast<void*>(move.to), static_cast<const void*>(move.from));
  }
  segments.flush();
}

void copy_items(const tensor::KernelCall& call, const Tensor& to, const Tensor& from) {
  if (to.numel() == 0) return;
  const auto item = static_cast<std::int64_t>(itemsize(to.dtype()));
  const ItemMove move{walk_of(Loop({&to, &from})), to.data(), from.data()};
  if (is_one_run(move.walk, 2)) {
    call.stream().copy(move.to + move.walk.first[0] * item, move.from + move.walk.first[1] * item, to.nbytes(),
                       call.op.name());
    return;
  }
  move_items(call, std::span(&move, 1), item);
}

void fill_items(const tensor::KernelCall& call, const Tensor& to, std::span<const std::byte> item) {
  if (to.numel() == 0) return;
  const auto size = static_cast<std::int64_t>(item.size());
  const ItemMove move{walk_of(Loop({&to})), to.data(), nullptr};
  const auto pattern = pattern_of(repeated(item));
  if (is_one_run(move.walk, 1) && pattern) {
    const std::size_t width = std::min<std::size_t>(4, item.size());
    call.stream().fill(move.to + move.walk.first[0] * size, *pattern, width, to.nbytes() / width, call.op.name());
    return;
  }
  move_items(call, std::span(&move, 1), size, item);
}

}  // namespace tessera::ops::cuda
