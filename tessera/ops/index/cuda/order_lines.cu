// sort and topk: the order of host code, by value and then by index. Elements become unsigned keys of equal order; nans
// are the greatest key and both zeros are one key, so that results copy their element from the input.
//
//   order_small   lines of up to kBlockOrder elements: a block sorts one or several by exchanges of pairs
//   radix_*       longer lines: stable passes by 8 bits of the key. Each pass counts digits per tile, adds up the
//                 counts, and distributes the elements
//   select        topk: a block finds the last key of the result digit by digit, collects the elements up to it, of
//                 equal ones those with the lowest indices, and sorts them. Chunks of a line yield candidates
//
// Counters are integers, so that no result depends on the order of blocks.
#include "tessera/ops/cuda/strided.cuh"
#include "tessera/ops/index/cuda/order_call.h"

namespace tessera::ops::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kWarps = kBlock / 32;
constexpr unsigned kAllLanes = 0xffffffff;

/// Returns an unsigned key that is ordered as the number with these bits. `infinity` holds the bits of infinity.
template <class K>
__device__ K float_key(K bits, K infinity, K sign) {
  const K all = sign | (sign - 1);
  const K magnitude = bits & (sign - 1);
  if (magnitude > infinity) return all;
  if (magnitude == 0) return sign;
  return (bits & sign) != 0 ? ~bits & all : bits | sign;
}

template <class S>
__device__ S element(const OrderLines& of, std::int64_t at) {
  return static_cast<const S*>(of.from)[at];
}

/// Returns the key of the element at an offset.
template <class K>
__device__ K load_key(const OrderLines& of, std::int64_t at) {
  K key = 0;
  if constexpr (sizeof(K) == 8) {
    constexpr K kSign = K{1} << 63;
    const K bits = element<K>(of, at);
    key = of.dtype == DType::kF64 ? float_key<K>(bits, 0x7ff0000000000000, kSign) : bits ^ kSign;
  } else {
    switch (of.dtype) {
      case DType::kF32: key = float_key<K>(element<std::uint32_t>(of, at), 0x7f800000, 0x80000000); break;
      case DType::kBF16: key = float_key<K>(element<std::uint16_t>(of, at), 0x7f80, 0x8000); break;
      case DType::kF16: key = float_key<K>(element<std::uint16_t>(of, at), 0x7c00, 0x8000); break;
      case DType::kI32: key = element<std::uint32_t>(of, at) ^ 0x80000000; break;
      case DType::kI16: key = element<std::uint16_t>(of, at) ^ 0x8000; break;
      case DType::kI8: key = element<std::uint8_t>(of, at) ^ 0x80; break;
      case DType::kBool: key = element<std::uint8_t>(of, at) != 0 ? 1 : 0; break;
      default: key = element<std::uint8_t>(of, at); break;
    }
  }
  const K all = ~K{0} >> (8 * sizeof(K) - of.key_bits);
  return of.is_descending ? ~key & all : key;
}

/// Writes result `i` of a line: the element at index `place`, and this index.
__device__ void put_result(const OrderLines& of, const std::int64_t (&at)[3], std::int64_t i, std::int64_t place) {
  const std::int64_t to = at[0] + i * of.value_step;
  const std::int64_t from = at[2] + place * of.from_step;
  switch (itemsize(of.dtype)) {
    case 8: static_cast<std::uint64_t*>(of.values)[to] = element<std::uint64_t>(of, from); break;
    case 4: static_cast<std::uint32_t*>(of.values)[to] = element<std::uint32_t>(of, from); break;
    case 2: static_cast<std::uint16_t*>(of.values)[to] = element<std::uint16_t>(of, from); break;
    default: {
      const auto byte = element<std::uint8_t>(of, from);
      static_cast<std::uint8_t*>(of.values)[to] = of.dtype == DType::kBool && byte != 0 ? 1 : byte;
    }
  }
  of.indices[at[1] + i * of.index_step] = place;
}

/// Sorts groups of `group` adjacent slots, a power of two, by key and then by place. All threads must call it.
template <class K>
__device__ void sort_slots(K* keys, std::uint32_t* places, int slots, int group) {
  for (int size = 2; size <= group; size *= 2) {
    for (int apart = size / 2; apart > 0; apart /= 2) {
      __syncthreads();
      for (int pair = static_cast<int>(threadIdx.x); pair < slots / 2; pair += kBlock) {
        const int i = 2 * pair - (pair & (apart - 1));
        const int j = i + apart;
        const bool is_up = size == group || (i & size) == 0;
        const bool is_after = keys[i] > keys[j] || (keys[i] == keys[j] && places[i] > places[j]);
        if (is_after != is_up) continue;
        const K key = keys[i];
        const std::uint32_t place = places[i];
        keys[i] = keys[j];
        places[i] = places[j];
        keys[j] = key;
        places[j] = place;
      }
    }
  }
  __syncthreads();
}

/// Returns the sum of the values of the threads before this one; `all` is that of all. All threads must call it.
__device__ std::uint32_t sum_before(std::uint32_t value, std::uint32_t& all) {
  __shared__ std::uint32_t warps[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  std::uint32_t sum = value;
  for (int by = 1; by < 32; by *= 2) {
    const std::uint32_t below = __shfl_up_sync(kAllLanes, sum, by);
    if (lane >= by) sum += below;
  }
  __syncthreads();  // the memory may still be read by the call before
  if (lane == 31) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  all = 0;
  std::uint32_t before = sum - value;
  for (int w = 0; w < kWarps; ++w) {
    if (w < static_cast<int>(threadIdx.x) / 32) before += warps[w];
    all += warps[w];
  }
  return before;
}

template <class K>
__device__ void order_small(const OrderLines& of, int group) {
  __shared__ K keys[kBlockOrder];
  __shared__ std::uint32_t places[kBlockOrder];
  const int slots = group > 1024 ? group : 1024;
  const std::int64_t first = std::int64_t{blockIdx.x} * (slots / group);
  for (int s = static_cast<int>(threadIdx.x); s < slots; s += kBlock) {
    const std::int64_t line = first + s / group;
    const int place = s % group;
    keys[s] = ~K{0};
    places[s] = static_cast<std::uint32_t>(place);
    if (line >= of.lines || place >= of.length) continue;
    std::int64_t at[3];
    offsets_at(of.kept, line, at);
    keys[s] = load_key<K>(of, at[2] + place * of.from_step);
  }
  sort_slots(keys, places, slots, group);
  for (int s = static_cast<int>(threadIdx.x); s < slots; s += kBlock) {
    const std::int64_t line = first + s / group;
    const int i = s % group;
    if (line >= of.lines || i >= of.count) continue;
    std::int64_t at[3];
    offsets_at(of.kept, line, at);
    put_result(of, at, i, places[s]);
  }
}

/// The tile of a block of a pass.
struct Tile {
  std::int64_t line;  // of all lines
  std::int64_t row;   // of the lines of the pass
  int tile;
  std::int64_t at[3];
};
__device__ Tile tile_of(const OrderLines& of, const RadixPass& pass) {
  Tile tile;
  tile.row = blockIdx.x / pass.tiles;
  tile.tile = static_cast<int>(blockIdx.x % pass.tiles);
  tile.line = pass.first + tile.row;
  offsets_at(of.kept, tile.line, tile.at);
  return tile;
}
template <class K>
__device__ K pass_key(const OrderLines& of, const RadixPass& pass, const Tile& tile, std::int64_t i) {
  if (pass.is_first) return load_key<K>(of, tile.at[2] + i * of.from_step);
  return static_cast<const K*>(pass.keys_in)[tile.row * of.length + i];
}
template <class K>
__device__ int digit_of(K key, int shift) {
  return static_cast<int>(key >> shift) & (kDigits - 1);
}

template <class K>
__device__ void count_digits(const OrderLines& of, const RadixPass& pass) {
  __shared__ std::uint32_t counts[kDigits];
  counts[threadIdx.x] = 0;
  __syncthreads();
  const Tile tile = tile_of(of, pass);
  const std::int64_t begin = tile.tile * radix_tile(sizeof(K));
  const std::int64_t end = begin + radix_tile(sizeof(K));
  for (std::int64_t i = begin + threadIdx.x; i < end && i < of.length; i += kBlock) {
    atomicAdd(&counts[digit_of(pass_key<K>(of, pass, tile, i), pass.shift)], 1U);
  }
  __syncthreads();
  pass.counts[(tile.row * kDigits + threadIdx.x) * pass.tiles + tile.tile] = counts[threadIdx.x];
}

template <class K>
__device__ void distribute(const OrderLines& of, const RadixPass& pass) {
  constexpr int kTile = static_cast<int>(radix_tile(sizeof(K)));
  constexpr int kItems = kTile / kBlock;
  __shared__ K keys[kTile];
  __shared__ std::uint32_t places[kTile];
  __shared__ std::uint32_t counts[kWarps][kDigits + 1];  // one more for the threads beyond the end
  __shared__ std::uint32_t starts[kDigits];              // of the digits in the tile
  __shared__ std::uint32_t moves[kDigits];               // from the index in the tile to that in the line
  const Tile tile = tile_of(of, pass);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int d = lane; d <= kDigits; d += 32) counts[warp][d] = 0;
  __syncwarp();

  // Ranks among equal digits of a warp, in the order of elements.
  const std::int64_t begin = std::int64_t{tile.tile} * kTile + warp * (32 * kItems) + lane;
  K own[kItems];
  std::uint32_t own_places[kItems];
  std::uint32_t ranks[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const std::int64_t i = begin + k * 32;
    const bool is_there = i < of.length;
    own[k] = is_there ? pass_key<K>(of, pass, tile, i) : K{0};
    own_places[k] = static_cast<std::uint32_t>(i);
    if (is_there && !pass.is_first) own_places[k] = pass.places_in[tile.row * of.length + i];
  }
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int digit = begin + k * 32 < of.length ? digit_of(own[k], pass.shift) : kDigits;
    const unsigned equals = __match_any_sync(kAllLanes, digit);
    const std::uint32_t before = counts[warp][digit];
    ranks[k] = before + __popc(equals & ((1U << lane) - 1));
    __syncwarp();
    if (lane == __ffs(equals) - 1) counts[warp][digit] = before + __popc(equals);
    __syncwarp();
  }
  __syncthreads();

  // Each thread has a digit: where its elements of each warp begin.
  const auto digit_here = threadIdx.x;
  std::uint32_t count = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    const std::uint32_t of_warp = counts[w][digit_here];
    counts[w][digit_here] = count;
    count += of_warp;
  }
  std::uint32_t all;
  const std::uint32_t start = sum_before(count, all);
  const std::uint32_t line_start = sum_before(pass.totals[tile.row * kDigits + digit_here], all);
  starts[digit_here] = start;
  moves[digit_here] = line_start + pass.counts[(tile.row * kDigits + digit_here) * pass.tiles + tile.tile] - start;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    if (begin + k * 32 >= of.length) continue;
    const int digit = digit_of(own[k], pass.shift);
    const std::uint32_t to = starts[digit] + counts[warp][digit] + ranks[k];
    keys[to] = own[k];
    places[to] = own_places[k];
  }
  __syncthreads();
  const std::int64_t left = of.length - std::int64_t{tile.tile} * kTile;
  for (int i = static_cast<int>(threadIdx.x); i < kTile && i < left; i += kBlock) {
    const K key = keys[i];
    const std::int64_t to =
        static_cast<std::uint32_t>(moves[digit_of(key, pass.shift)] + static_cast<std::uint32_t>(i));
    if (pass.is_last) {
      if (to < of.count) put_result(of, tile.at, to, places[i]);
      continue;
    }
    static_cast<K*>(pass.keys_out)[tile.row * of.length + to] = key;
    pass.places_out[tile.row * of.length + to] = places[i];
  }
}

/// The elements of a chunk that are candidates.
template <class K>
struct Candidates {
  const OrderLines& of;
  const Selection& how;
  std::int64_t line;
  std::int64_t first;  // in the line
  std::int64_t size;
  std::int64_t at[3];

  __device__ K key(std::int64_t i) const {
    if (how.keys_in == nullptr) return load_key<K>(of, at[2] + (first + i) * of.from_step);
    return static_cast<const K*>(how.keys_in)[line * how.length + first + i];
  }
  __device__ std::uint32_t place(std::int64_t i) const {
    if (how.keys_in == nullptr) return static_cast<std::uint32_t>(first + i);
    return how.places_in[line * how.length + first + i];
  }
};

/// The selected keys: those whose upper bits are below `prefix`, and the first `equals` of those where they equal it.
template <class K>
struct Bound {
  K prefix;
  int shift;  // of the upper bits
  std::uint32_t equals;
};

/// Finds the bound of the first `count` keys. All threads must call it.
template <class K>
__device__ Bound<K> find_bound(const Candidates<K>& from, std::uint32_t count) {
  constexpr int kMostBits = 11;
  constexpr int kEach = (1 << kMostBits) / kBlock;
  __shared__ std::uint32_t counts[1 << kMostBits];
  __shared__ Bound<K> found;
  __shared__ bool is_exact;
  Bound<K> bound = {0, from.of.key_bits, count};
  while (bound.shift > 0) {
    const int bits = bound.shift < kMostBits ? bound.shift : kMostBits;
    const int shift = bound.shift - bits;
    for (int k = 0; k < kEach; ++k) counts[threadIdx.x * kEach + k] = 0;
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < from.size; i += kBlock) {
      const K key = from.key(i) >> shift;
      if (bits + shift == from.of.key_bits || key >> bits == bound.prefix) {
        atomicAdd(&counts[static_cast<unsigned>(key & ((K{1} << bits) - 1))], 1U);
      }
    }
    __syncthreads();
    std::uint32_t own = 0;
    for (int k = 0; k < kEach; ++k) own += counts[threadIdx.x * kEach + k];
    std::uint32_t all;
    std::uint32_t before = sum_before(own, all);
    if (before < bound.equals && before + own >= bound.equals) {  // one thread
      int k = 0;
      while (before + counts[threadIdx.x * kEach + k] < bound.equals) before += counts[threadIdx.x * kEach + k++];
      const std::uint32_t left = bound.equals - before;
      is_exact = counts[threadIdx.x * kEach + k] == left;
      found = {(bound.prefix << bits) | static_cast<K>(threadIdx.x * kEach + k), shift, left};
    }
    __syncthreads();
    bound = found;
    if (is_exact) break;
  }
  return bound;
}

template <class K>
__device__ void select(const OrderLines& of, const Selection& how) {
  constexpr int kEach = 4;
  __shared__ K keys[kBlockOrder];
  __shared__ std::uint32_t places[kBlockOrder];
  __shared__ std::uint32_t filled;
  const std::int64_t line = blockIdx.x / how.chunks;
  const std::int64_t chunk = blockIdx.x % how.chunks;
  Candidates<K> from = {of, how, line, chunk * how.chunk, how.chunk, {}};
  if (from.first + from.size > how.length) from.size = how.length - from.first;
  offsets_at(of.kept, line, from.at);
  const auto count = static_cast<std::uint32_t>(from.size < of.count ? from.size : of.count);
  const Bound<K> bound = find_bound(from, count);

  for (int s = static_cast<int>(threadIdx.x); s < kBlockOrder; s += kBlock) {
    keys[s] = ~K{0};
    places[s] = 0xffffffff;
  }
  if (threadIdx.x == 0) filled = 0;
  __syncthreads();
  std::uint32_t equals_before = 0;
  for (std::int64_t start = 0; start < from.size; start += kBlock * kEach) {
    const std::int64_t i = start + threadIdx.x * kEach;
    K own[kEach];
    std::uint32_t equals = 0;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      own[k] = i + k < from.size ? from.key(i + k) : ~K{0};
      equals += i + k < from.size && own[k] >> bound.shift == bound.prefix ? 1 : 0;
    }
    std::uint32_t rank = equals_before;
    if (__syncthreads_or(equals != 0 && equals_before < bound.equals)) {
      std::uint32_t all;
      rank += sum_before(equals, all);
      equals_before += all;
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      if (i + k >= from.size) continue;
      const K upper = own[k] >> bound.shift;
      const bool is_equal = upper == bound.prefix;
      if (upper < bound.prefix || (is_equal && rank < bound.equals)) {
        const std::uint32_t slot = atomicAdd(&filled, 1U);
        keys[slot] = own[k];
        places[slot] = from.place(i + k);
      }
      rank += is_equal ? 1 : 0;
    }
  }
  int group = 2;
  while (group < static_cast<int>(count)) group *= 2;
  sort_slots(keys, places, group, group);
  for (std::int64_t s = threadIdx.x; s < of.count; s += kBlock) {
    if (how.keys_out == nullptr) {
      put_result(of, from.at, s, places[s]);
    } else {
      const std::int64_t to = (line * how.chunks + chunk) * of.count + s;
      static_cast<K*>(how.keys_out)[to] = keys[s];
      how.places_out[to] = places[s];
    }
  }
}

}  // namespace

/// Replaces the counts of a digit of a line by the sums of the tiles before, and writes their total. One block each.
extern "C" __global__ void __launch_bounds__(kBlock) radix_offsets(const __grid_constant__ RadixPass pass) {
  std::uint32_t* const counts = pass.counts + std::int64_t{blockIdx.x} * pass.tiles;
  std::uint32_t carry = 0;
  for (int start = 0; start < pass.tiles; start += kBlock) {
    const int tile = start + static_cast<int>(threadIdx.x);
    std::uint32_t all;
    const std::uint32_t before = sum_before(tile < pass.tiles ? counts[tile] : 0, all);
    if (tile < pass.tiles) counts[tile] = carry + before;
    carry += all;
  }
  if (threadIdx.x == 0) pass.totals[blockIdx.x] = carry;
}

#define TESSERA_ORDER_KERNELS(name, K)                                                                         \
  extern "C" __global__ void __launch_bounds__(kBlock)                                                         \
      order_small_##name(const __grid_constant__ OrderLines of, int group) {                                   \
    order_small<K>(of, group);                                                                                 \
  }                                                                                                            \
  extern "C" __global__ void __launch_bounds__(kBlock)                                                         \
      radix_count_##name(const __grid_constant__ OrderLines of, const __grid_constant__ RadixPass pass) {      \
    count_digits<K>(of, pass);                                                                                 \
  }                                                                                                            \
  extern "C" __global__ void __launch_bounds__(kBlock)                                                         \
      radix_distribute_##name(const __grid_constant__ OrderLines of, const __grid_constant__ RadixPass pass) { \
    distribute<K>(of, pass);                                                                                   \
  }                                                                                                            \
  extern "C" __global__ void __launch_bounds__(kBlock)                                                         \
      select_##name(const __grid_constant__ OrderLines of, const __grid_constant__ Selection how) {            \
    select<K>(of, how);                                                                                        \
  }
TESSERA_ORDER_KERNELS(u32, std::uint32_t)
TESSERA_ORDER_KERNELS(u64, std::uint64_t)

}  // namespace tessera::ops::cuda
