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

// The first elements of a tile, and the offsets of its batch.
struct Tile {
  std::int64_t x, y;
  std::int64_t at[2];

  __device__ Tile(const TransposedMove& of, std::int64_t t, int side) {
    std::int64_t batch = 0;
    if (of.tiles < std::int64_t{1} << 32) {  // a 64-bit division takes longer than the loads of a tile
      const auto in_plane = static_cast<std::uint32_t>(of.tiles_x * of.tiles_y);
      const auto tiles_x = static_cast<std::uint32_t>(of.tiles_x);
      const auto index = static_cast<std::uint32_t>(t);
      batch = index / in_plane;
      y = index % in_plane / tiles_x * static_cast<std::int64_t>(side);
      x = index % in_plane % tiles_x * static_cast<std::int64_t>(side);
    } else {
      batch = t / (of.tiles_x * of.tiles_y);
      y = t % (of.tiles_x * of.tiles_y) / of.tiles_x * side;
      x = t % (of.tiles_x * of.tiles_y) % of.tiles_x * side;
    }
    offsets_at(of.rest, batch, at);
  }
};

// V items along a contiguous dimension, accessed as one word.
template <class Item, int V>
union Group {
  Item items[V];
  std::conditional_t<V == 1, Item, uint4> word;
};

// A tile is read by rows and written by columns. Rows are padded by an item, so that few lanes access the same bank.
template <class Item, int V>
__device__ void transpose_by(const TransposedMove& of) {
  constexpr int kSide = static_cast<int>(transposed_side(sizeof(Item), V > 1));
  constexpr int kPad = sizeof(Item) < 4 ? 4 / static_cast<int>(sizeof(Item)) : 1;
  constexpr int kPerRow = kSide / V;
  constexpr int kRows = kThreads / kPerRow;
  constexpr int kEach = kSide / kRows;
  __shared__ alignas(16) Item tile[kSide][kSide + kPad];
  const int along = static_cast<int>(threadIdx.x) % kPerRow * V;
  const int line = static_cast<int>(threadIdx.x) / kPerRow;
  for (std::int64_t t = blockIdx.x; t < of.tiles; t += gridDim.x) {
    const Tile at(of, t, kSide);
    Group<Item, V> groups[kEach];
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
      const std::int64_t y = at.y + line + r * kRows;
      if (y >= of.ny || at.x + along >= of.nx) continue;
      groups[r].word = *reinterpret_cast<const decltype(groups[r].word)*>(static_cast<const Item*>(of.from) + at.at[1] +
                                                                          y * of.from_y + at.x + along);
    }
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
#pragma unroll
      for (int k = 0; k < V; ++k) tile[line + r * kRows][along + k] = groups[r].items[k];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
      const int column = line + r * kRows;
      if (at.x + column >= of.nx || at.y + along >= of.ny) continue;
      Group<Item, V> group;
#pragma unroll
      for (int k = 0; k < V; ++k) group.items[k] = tile[along + k][column];
      auto* to = static_cast<Item*>(of.to) + at.at[0] + (at.x + column) * of.to_x + at.y + along;
      if constexpr (V == 1) {
        *to = group.word;
      } else {
        __stwb(reinterpret_cast<uint4*>(to), group.word);
      }
    }
    __syncthreads();
  }
}

// Returns item p of each of V words of P items.
template <int P, int V>
__device__ uint4 column_of(const std::uint32_t (&words)[V], int p) {
  std::uint32_t to[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    if constexpr (P == 1) {
      to[w] = words[w];
    } else if constexpr (P == 2) {
      to[w] = __byte_perm(words[2 * w], words[2 * w + 1], p == 0 ? 0x5410 : 0x7632);
    } else {
      const std::uint32_t selected = p | (p + 4) << 4;  // byte p of both words
      to[w] = __byte_perm(__byte_perm(words[4 * w], words[4 * w + 1], selected),
                          __byte_perm(words[4 * w + 2], words[4 * w + 3], selected), 0x5410);
    }
  }
  return {to[0], to[1], to[2], to[3]};
}

// The same for items of 1, 2 or 4 bytes in vectors of 16 bytes of V items. Shared memory is read in words of P items: V
// words of adjacent rows are P vectors of adjacent columns. The vectors of a row are rotated by the index of its group
// of V rows, so that the words that a warp reads, four in each of eight groups of rows, are in different banks.
// Stores are intrinsics, because the compiler splits stores of vectors whose words it computes one by one.
template <class Item>
__device__ void transpose_words(const TransposedMove& of) {
  constexpr int V = 16 / static_cast<int>(sizeof(Item));
  constexpr int P = 4 / static_cast<int>(sizeof(Item));
  constexpr int kSide = static_cast<int>(transposed_side(sizeof(Item), true));
  constexpr int kVectors = kSide / V;  // of a row, and groups of rows
  constexpr int kLoads = kSide * kVectors / kThreads;
  constexpr int kStores = kLoads / P;
  constexpr int kRowStep = kThreads / kVectors;
  // A warp writes four words of eight groups; the warps of a block write all groups of some vectors at a time.
  constexpr int kWarps = kVectors / 8;
  constexpr int kVectorStep = kThreads / 32 / kWarps;
  static_assert(kVectors % 8 == 0 && kVectorStep * kStores == kVectors, "all words of a tile");
  __shared__ uint4 tile[kSide * kVectors];
  const auto* words = reinterpret_cast<const std::uint32_t*>(tile);
  const auto thread = static_cast<int>(threadIdx.x);
  const int vector = thread % kVectors;
  const int row = thread / kVectors;
  const int group = thread / 32 % kWarps * 8 + thread % 32 / 4;
  const int first = thread / 32 / kWarps;
  for (std::int64_t t = blockIdx.x; t < of.tiles; t += gridDim.x) {
    const Tile at(of, t, kSide);
    uint4 loaded[kLoads];
    const auto* from = static_cast<const Item*>(of.from) + at.at[1] + (at.y + row) * of.from_y + at.x + vector * V;
    const std::int64_t rows = at.x + vector * V < of.nx ? of.ny - at.y - row : 0;
#pragma unroll
    for (int r = 0; r < kLoads; ++r) {
      if (r * kRowStep < rows) loaded[r] = *reinterpret_cast<const uint4*>(from);
      from += kRowStep * of.from_y;
    }
#pragma unroll
    for (int r = 0; r < kLoads; ++r) {
      const int y = row + r * kRowStep;
      tile[y * kVectors + (vector + y / V) % kVectors] = loaded[r];
    }
    __syncthreads();
    const int column = first * V + thread % 4 * P;
    auto* to = static_cast<Item*>(of.to) + at.at[0] + (at.x + column) * of.to_x + at.y + group * V;
    const std::int64_t columns = at.y + group * V < of.ny ? of.nx - at.x - column : 0;
#pragma unroll
    for (int r = 0; r < kStores; ++r) {
      if (r * kVectorStep * V < columns) {
        std::uint32_t read[V];
#pragma unroll
        for (int k = 0; k < V; ++k) {
          const int rotated = (first + r * kVectorStep + group) % kVectors;
          read[k] = words[((group * V + k) * kVectors + rotated) * 4 + thread % 4];
        }
#pragma unroll
        for (int p = 0; p < P; ++p) __stwb(reinterpret_cast<uint4*>(to + p * of.to_x), column_of<P>(read, p));
      }
      to += kVectorStep * V * of.to_x;
    }
    __syncthreads();
  }
}

}  // namespace

#define TESSERA_MOVE_KERNELS(nbytes, Item, turned)                                                         \
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
  extern "C" __global__ void __launch_bounds__(kThreads, 3)                                                \
      transpose_groups_##nbytes(const __grid_constant__ TransposedMove of) {                               \
    turned(of);                                                                                            \
  }
TESSERA_MOVE_KERNELS(1, std::uint8_t, transpose_words<std::uint8_t>)
TESSERA_MOVE_KERNELS(2, std::uint16_t, transpose_words<std::uint16_t>)
TESSERA_MOVE_KERNELS(4, std::uint32_t, transpose_words<std::uint32_t>)
TESSERA_MOVE_KERNELS(8, std::uint64_t, (transpose_by<std::uint64_t, 2>))
TESSERA_MOVE_KERNELS(16, uint4, (transpose_by<uint4, 1>))

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
