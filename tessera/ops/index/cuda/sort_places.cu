// Sorts the places of an index by key, equal keys in order. One block sorts few places by a bitonic network; more
// places are sorted by passes over 8 bits of the keys, lowest first: count digits per block, scan the counts, move.
#include "tessera/ops/cuda/strided.cuh"
#include "tessera/ops/index/cuda/rejections.cuh"
#include "tessera/ops/index/cuda/sum_items.h"

namespace tessera::ops::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kRounds = static_cast<int>(kSortTile) / kThreads;

// Returns the sum of the values of earlier threads, and the sum of all in `total`. `sums` has kWarps words.
__device__ std::uint32_t exclusive_scan(std::uint32_t value, std::uint32_t* sums, std::uint32_t& total) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  std::uint32_t sum = value;
  for (int by = 1; by < 32; by *= 2) {
    const std::uint32_t other = __shfl_up_sync(0xffffffffU, sum, by);
    if (lane >= by) sum += other;
  }
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
  std::uint32_t before = 0;
  total = 0;
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp) before += sums[w];
    total += sums[w];
  }
  __syncthreads();
  return before + sum - value;
}

__device__ int digit_of(const RadixPass& of, std::uint32_t key) {
  return static_cast<int>(key >> of.shift & (kDigits - 1));
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) place_keys(const __grid_constant__ PlaceKeys of) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < of.places.numel; i += stride) {
    std::int64_t at[3];
    offsets_at(of.places, i, at);
    const std::int64_t index = checked_index(of.index, at[0]);
    const std::int64_t local = index < 0 ? -1 : of.map.local(index);
    of.to[i] = local < 0 ? of.nkeys : static_cast<std::uint32_t>(at[2] + local * of.key_step);
  }
}

extern "C" __global__ void __launch_bounds__(1024) sort_small(const __grid_constant__ RadixPass of) {
  __shared__ std::uint64_t pairs[kSmallSort];
  int size = 2;
  while (size < static_cast<int>(of.count)) size *= 2;
  for (int i = threadIdx.x; i < size; i += blockDim.x) {
    pairs[i] = i < of.count ? std::uint64_t{of.keys[i]} << 32 | static_cast<std::uint32_t>(i) : ~std::uint64_t{0};
  }
  for (int run = 2; run <= size; run *= 2) {
    for (int apart = run / 2; apart > 0; apart /= 2) {
      __syncthreads();
      for (int t = threadIdx.x; t < size / 2; t += blockDim.x) {
        const int i = 2 * t - t % apart;
        const std::uint64_t a = pairs[i];
        const std::uint64_t b = pairs[i + apart];
        if ((a > b) == ((i & run) == 0)) {
          pairs[i] = b;
          pairs[i + apart] = a;
        }
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < of.count; i += blockDim.x) {
    of.to_keys[i] = static_cast<std::uint32_t>(pairs[i] >> 32);
    of.to_places[i] = static_cast<std::uint32_t>(pairs[i]);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) count_digits(const __grid_constant__ RadixPass of) {
  __shared__ std::uint32_t counts[kDigits];
  counts[threadIdx.x] = 0;
  __syncthreads();
  const std::int64_t first = std::int64_t{blockIdx.x} * kSortTile + threadIdx.x;
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const std::int64_t i = first + r * kThreads;
    if (i < of.count) atomicAdd(&counts[digit_of(of, of.keys[i])], 1U);
  }
  __syncthreads();
  of.counts[std::int64_t{threadIdx.x} * of.blocks + blockIdx.x] = counts[threadIdx.x];
}

// One block per digit.
extern "C" __global__ void __launch_bounds__(kThreads) scan_digits(const __grid_constant__ RadixPass of) {
  __shared__ std::uint32_t sums[kWarps];
  std::uint32_t* counts = of.counts + std::int64_t{blockIdx.x} * of.blocks;
  std::uint32_t before = 0;
  for (std::uint32_t start = 0; start < of.blocks; start += kThreads) {
    const std::uint32_t i = start + threadIdx.x;
    const std::uint32_t count = i < of.blocks ? counts[i] : 0;
    std::uint32_t total;
    const std::uint32_t sum = exclusive_scan(count, sums, total);
    if (i < of.blocks) counts[i] = before + sum;
    before += total;
  }
  if (threadIdx.x == 0) of.totals[blockIdx.x] = before;
}

// Each warp takes consecutive keys, 32 at a time, so that the rank of a key counts the equal digits before it.
extern "C" __global__ void __launch_bounds__(kThreads) move_digits(const __grid_constant__ RadixPass of) {
  __shared__ std::uint32_t counts[kWarps][kDigits];
  __shared__ std::uint32_t sums[kWarps];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  for (int w = 0; w < kWarps; ++w) counts[w][threadIdx.x] = 0;
  std::uint32_t total;
  const std::uint32_t lower = exclusive_scan(of.totals[threadIdx.x], sums, total);  // ends with a barrier
  const std::int64_t first = std::int64_t{blockIdx.x} * kSortTile + warp * (kRounds * 32) + lane;
  std::uint32_t keys[kRounds];
  std::uint32_t ranks[kRounds];
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const std::int64_t i = first + r * 32;
    keys[r] = i < of.count ? of.keys[i] : 0;
  }
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const bool is_key = first + r * 32 < of.count;
    const int digit = is_key ? digit_of(of, keys[r]) : kDigits;
    const unsigned equal = __match_any_sync(0xffffffffU, digit);
    const int before = __popc(equal & ((1U << lane) - 1));
    ranks[r] = is_key ? counts[warp][digit] + before : 0;
    __syncwarp();
    if (is_key && before == 0) counts[warp][digit] += __popc(equal);
    __syncwarp();
  }
  __syncthreads();
  std::uint32_t place = lower + of.counts[std::int64_t{threadIdx.x} * of.blocks + blockIdx.x];
  for (int w = 0; w < kWarps; ++w) {
    const std::uint32_t count = counts[w][threadIdx.x];
    counts[w][threadIdx.x] = place;
    place += count;
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const std::int64_t i = first + r * 32;
    if (i >= of.count) continue;
    const std::uint32_t to = counts[warp][digit_of(of, keys[r])] + ranks[r];
    of.to_keys[to] = keys[r];
    of.to_places[to] = of.places != nullptr ? of.places[i] : static_cast<std::uint32_t>(i);
  }
}

}  // namespace tessera::ops::cuda
