// Moves items of 1 to 16 bytes: at the offsets of a walk, from a table of segments, or transposed through tiles.
#include "tessera/ops/cuda/moved_arrays.h"
#include "tessera/ops/cuda/strided.cuh"

namespace tessera::ops::cuda {
namespace {

constexpr int kThreads = 256;

// All loads of a thread are under way before its first store.
template <class Item>
__device__ void copy_by(const Walk& walk, void* to, const void* from) {
  const std::int64_t each = std::int64_t{kItemsEach} * kThreads;
  const std::int64_t stride = gridDim.x * each;
  for (std::int64_t start = blockIdx.x * each + threadIdx.x; start < walk.numel; start += stride) {
    Item items[kItemsEach];
    std::int64_t at[kItemsEach][2];
#pragma unroll
    for (int k = 0; k < kItemsEach; ++k) {
      const std::int64_t i = start + k * kThreads;
      if (i >= walk.numel) continue;
      offsets_at(walk, i, at[k]);
      items[k] = static_cast<const Item*>(from)[at[k][1]];
    }
#pragma unroll
    for (int k = 0; k < kItemsEach; ++k) {
      if (start + k * kThreads < walk.numel) static_cast<Item*>(to)[at[k][0]] = items[k];
    }
  }
}

template <class Item>
__device__ void fill_by(const Walk& walk, void* to, Item item) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < walk.numel; i += stride) {
    std::int64_t at[1];
    offsets_at(walk, i, at);
    static_cast<Item*>(to)[at[0]] = item;
  }
}

__device__ void offsets_in(const Segment& of, std::uint32_t item, std::int64_t (&at)[2]) {
  at[0] = of.first[0];
  at[1] = of.first[1];
  for (int d = 0; d < of.ndim - 1; ++d) {
    const std::uint32_t above = divided(item, of.dividers[d]);
    const std::int64_t digit = item - above * of.sizes[d];
    at[0] += digit * of.steps[d][0];
    at[1] += digit * of.steps[d][1];
    item = above;
  }
  at[0] += item * of.steps[of.ndim - 1][0];
  at[1] += item * of.steps[of.ndim - 1][1];
}

template <class Item>
__device__ void move_block(const Segment& of, const std::uint8_t* value) {
  const std::int64_t start = (blockIdx.x - of.first_block) * (kItemsEach * kThreads) + threadIdx.x;
  Item items[kItemsEach];
  std::int64_t at[kItemsEach][2];
#pragma unroll
  for (int k = 0; k < kItemsEach; ++k) {
    const std::int64_t i = start + k * kThreads;
    if (i >= of.numel) continue;
    offsets_in(of, static_cast<std::uint32_t>(i), at[k]);
    items[k] = of.from != nullptr ? static_cast<const Item*>(of.from)[at[k][1]] : *reinterpret_cast<const Item*>(value);
  }
#pragma unroll
  for (int k = 0; k < kItemsEach; ++k) {
    if (start + k * kThreads < of.numel) static_cast<Item*>(of.to)[at[k][0]] = items[k];
  }
}

// V items along a contiguous dimension; with V above 1, 16 bytes.
template <class Item, int V>
struct alignas(V * sizeof(Item)) Group {
  Item items[V];
};

// A tile is read by rows and written by columns. Rows are padded by a word, and consecutive groups of lanes write
// columns in different words, so that few lanes access the same bank.
template <class Item, int V>
__device__ void transpose_by(const TransposedMove& of) {
  constexpr int kSide = static_cast<int>(transposed_side(sizeof(Item)));
  constexpr int kPad = sizeof(Item) < 4 ? 4 / static_cast<int>(sizeof(Item)) : 1;
  constexpr int kPerRow = kSide / V;
  constexpr int kRows = kThreads / kPerRow;
  constexpr int kEach = kSide / kRows;
  constexpr int kApart = sizeof(Item) < 4 ? kPad : 1;
  __shared__ alignas(16) Item tile[kSide][kSide + kPad];
  const int along = static_cast<int>(threadIdx.x) % kPerRow * V;
  const int line = static_cast<int>(threadIdx.x) / kPerRow;
  for (std::int64_t t = blockIdx.x; t < of.tiles; t += gridDim.x) {
    const std::int64_t batch = t / (of.tiles_x * of.tiles_y);
    const std::int64_t in_batch = t - batch * of.tiles_x * of.tiles_y;
    const std::int64_t y0 = in_batch / of.tiles_x * kSide;
    const std::int64_t x0 = in_batch % of.tiles_x * kSide;
    std::int64_t at[2];
    offsets_at(of.rest, batch, at);
    Group<Item, V> groups[kEach];
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
      const std::int64_t y = y0 + line + r * kRows;
      if (y >= of.ny || x0 + along >= of.nx) continue;
      groups[r] = *reinterpret_cast<const Group<Item, V>*>(static_cast<const Item*>(of.from) + at[1] + y * of.from_y +
                                                           x0 + along);
    }
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
      Item* row = &tile[line + r * kRows][along];
      if constexpr (V == 1) {
        *row = groups[r].items[0];
      } else {
        const auto* words = reinterpret_cast<const std::uint32_t*>(&groups[r]);
#pragma unroll
        for (int w = 0; w < 4; ++w) reinterpret_cast<std::uint32_t*>(row)[w] = words[w];
      }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
      const int place = line + r * kRows;
      const int column = place % (kSide / kApart) * kApart + place / (kSide / kApart);
      if (x0 + column >= of.nx || y0 + along >= of.ny) continue;
      Group<Item, V> group;
#pragma unroll
      for (int k = 0; k < V; ++k) group.items[k] = tile[along + k][column];
      *reinterpret_cast<Group<Item, V>*>(static_cast<Item*>(of.to) + at[0] + (x0 + column) * of.to_x + y0 + along) =
          group;
    }
    __syncthreads();
  }
}

}  // namespace

#define TESSERA_MOVE_KERNELS(nbytes, Item, kVector)                                                        \
  extern "C" __global__ void __launch_bounds__(kThreads)                                                   \
      copy_items_##nbytes(const __grid_constant__ Walk walk, void* to, const void* from) {                 \
    copy_by<Item>(walk, to, from);                                                                         \
  }                                                                                                        \
  extern "C" __global__ void fill_items_##nbytes(const __grid_constant__ Walk walk, void* to, Item item) { \
    fill_by<Item>(walk, to, item);                                                                         \
  }                                                                                                        \
  extern "C" __global__ void __launch_bounds__(kThreads)                                                   \
      transpose_items_##nbytes(const __grid_constant__ TransposedMove of) {                                \
    transpose_by<Item, 1>(of);                                                                             \
  }                                                                                                        \
  extern "C" __global__ void __launch_bounds__(kThreads)                                                   \
      transpose_groups_##nbytes(const __grid_constant__ TransposedMove of) {                               \
    transpose_by<Item, kVector>(of);                                                                       \
  }
TESSERA_MOVE_KERNELS(1, std::uint8_t, 16)
TESSERA_MOVE_KERNELS(2, std::uint16_t, 8)
TESSERA_MOVE_KERNELS(4, std::uint32_t, 4)
TESSERA_MOVE_KERNELS(8, std::uint64_t, 2)
TESSERA_MOVE_KERNELS(16, uint4, 1)

extern "C" __global__ void __launch_bounds__(kThreads) move_segments(const __grid_constant__ SegmentTable table) {
  int s = 0;
  while (s + 1 < table.count && table.segments[s + 1].first_block <= blockIdx.x) ++s;
  const Segment& of = table.segments[s];
  switch (of.nbytes) {
    case 1: return move_block<std::uint8_t>(of, table.value);
    case 2: return move_block<std::uint16_t>(of, table.value);
    case 4: return move_block<std::uint32_t>(of, table.value);
    case 8: return move_block<std::uint64_t>(of, table.value);
    default: return move_block<uint4>(of, table.value);
  }
}

}  // namespace tessera::ops::cuda
