// Cumulative sums along lines, and histograms. The order of additions depends only on sizes.
//
//   by rows      a group of threads scans a line, kScanItems adjacent elements each, in rounds
//   by columns   adjacent lines are adjacent in memory: each thread scans one
//   chunks       with few lines, each is split; a first launch finds the total of each chunk, and the second launch
//                adds those before its own
#include "tessera/ops/cuda/strided.cuh"
#include "tessera/ops/reduce/cuda/reduce_steps.cuh"
#include "tessera/ops/reduce/cuda/scan_call.h"

namespace tessera::ops::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kAtOnce = 8;  // elements of a column in flight
constexpr unsigned kAllLanes = 0xffffffff;

struct Chunk {
  std::int64_t first;
  std::int64_t last;
};
__device__ Chunk chunk_of(const ScanCall& call) {
  const std::int64_t first = blockIdx.y * call.chunk;
  const std::int64_t end = first + call.chunk;
  return {first, end < call.length ? end : call.length};
}

// Sums over the threads of groups, in rounds. A round uses the half of the memory that the round before does not.
template <class W>
struct GroupScan {
  W (*parts)[kBlock / 32];
  int group;
  int round = 0;

  /// Returns the sum of the values of the threads before this one; `all` is that of all. All threads must call it.
  __device__ W before(W value, W& all) {
    const int width = group < 32 ? group : 32;
    const int lane = static_cast<int>(threadIdx.x) % width;
    W sum = value;
    for (int by = 1; by < width; by *= 2) {
      const W below = __shfl_up_sync(kAllLanes, sum, by, width);
      if (lane >= by) sum = plus(sum, below);
    }
    const W up = __shfl_up_sync(kAllLanes, sum, 1, width);
    W first = lane == 0 ? W(0) : up;
    all = __shfl_sync(kAllLanes, sum, width - 1, width);
    if (group <= 32) return first;
    W* const part = parts[round++ % 2];
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int own = warp % (group / 32);
    if (threadIdx.x % 32 == 0) part[warp] = all;
    __syncthreads();
    W below = W(0);
    all = W(0);
    for (int w = 0; w < group / 32; ++w) {
      if (w == own) below = all;
      all = plus(all, part[warp - own + w]);
    }
    return plus(below, first);
  }
};

template <class T>
__device__ void load_items(const ScanCall& call, std::int64_t base, std::int64_t i, std::int64_t last,
                           T (&x)[kScanItems]) {
  if (call.has_vectors && i + kScanItems <= last) {
#pragma unroll
    for (int v = 0; v < kScanItems; v += 4) {
      T four[4];
      const bool is_forward = call.from_step > 0;
      load_vector<4>(four, call.from, call.in, is_forward ? base + i + v : base - i - v - 3);
#pragma unroll
      for (int k = 0; k < 4; ++k) x[v + k] = is_forward ? four[k] : four[3 - k];
    }
    return;
  }
#pragma unroll
  for (int k = 0; k < kScanItems; ++k) {
    x[k] = i + k < last ? load<T>(call.from, call.in, base + (i + k) * call.from_step) : T(0);
  }
}

template <class T>
__device__ void store_items(const ScanCall& call, std::int64_t base, std::int64_t i, std::int64_t last,
                            const T (&x)[kScanItems]) {
  if (call.has_vectors && i + kScanItems <= last) {
#pragma unroll
    for (int v = 0; v < kScanItems; v += 4) {
      const bool is_forward = call.to_step > 0;
      T four[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) four[k] = is_forward ? x[v + k] : x[v + 3 - k];
      store_vector<4>(four, call.to, call.out, is_forward ? base + i + v : base - i - v - 3);
    }
    return;
  }
#pragma unroll
  for (int k = 0; k < kScanItems; ++k) {
    if (i + k < last) store(x[k], call.to, call.out, base + (i + k) * call.to_step);
  }
}

template <class T, class W>
__device__ void scan_rows(const ScanCall& call) {
  __shared__ W parts[2][kBlock / 32];
  GroupScan<W> scan{parts, call.group};
  const int place = static_cast<int>(threadIdx.x) % call.group;
  const std::int64_t line = std::int64_t{blockIdx.x} * (kBlock / call.group) + threadIdx.x / call.group;
  const bool is_there = line < call.lines;  // all threads must continue
  std::int64_t at[2] = {0, 0};
  if (is_there) offsets_at(call.kept, line, at);
  W* const totals = static_cast<W*>(call.totals);
  W carry = W(0);
  if (totals != nullptr && !call.finds_totals) {
    W part = W(0);
    for (int c = place; is_there && c < static_cast<int>(blockIdx.y); c += call.group) {
      part = plus(part, totals[c * call.lines + line]);
    }
    scan.before(part, carry);
  }
  const Chunk chunk = chunk_of(call);
  for (std::int64_t start = chunk.first; start < chunk.last; start += std::int64_t{call.group} * kScanItems) {
    const std::int64_t i = start + place * kScanItems;
    T x[kScanItems];
    load_items(call, at[1], i, is_there ? chunk.last : 0, x);
    W sums[kScanItems];
    W sum = W(0);
#pragma unroll
    for (int k = 0; k < kScanItems; ++k) sums[k] = sum = plus(sum, convert<W>(x[k]));
    W all;
    const W before = plus(carry, scan.before(sum, all));
    carry = plus(carry, all);
    if (call.finds_totals) continue;
#pragma unroll
    for (int k = 0; k < kScanItems; ++k) x[k] = convert<T>(plus(before, sums[k]));
    store_items(call, at[0], i, is_there ? chunk.last : 0, x);
  }
  if (call.finds_totals && is_there && place == 0) totals[blockIdx.y * call.lines + line] = carry;
}

template <class T, class W>
__device__ void scan_columns(const ScanCall& call) {
  const std::int64_t line = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (line >= call.lines) return;
  std::int64_t at[2];
  offsets_at(call.kept, line, at);
  W* const totals = static_cast<W*>(call.totals);
  W sum = W(0);
  if (totals != nullptr && !call.finds_totals) {
#pragma unroll 8
    for (int c = 0; c < static_cast<int>(blockIdx.y); ++c) sum = plus(sum, totals[c * call.lines + line]);
  }
  const Chunk chunk = chunk_of(call);
  for (std::int64_t i = chunk.first; i < chunk.last; i += kAtOnce) {
    T x[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      x[k] = i + k < chunk.last ? load<T>(call.from, call.in, at[1] + (i + k) * call.from_step) : T(0);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      sum = plus(sum, convert<W>(x[k]));
      if (!call.finds_totals && i + k < chunk.last) {
        store(convert<T>(sum), call.to, call.out, at[0] + (i + k) * call.to_step);
      }
    }
  }
  if (call.finds_totals) totals[blockIdx.y * call.lines + line] = sum;
}

// The bin of a value, as the host computes it; -1 if it is outside.
template <class T>
__device__ std::int64_t bin_of(const HistogramCall& call, T element) {
  const auto value = static_cast<double>(element);
  if (!(value >= call.low && value <= call.high)) return -1;
  const auto bin = static_cast<std::int64_t>(__dmul_rn(__dsub_rn(value, call.low), call.scale));
  return bin < call.bins ? bin : call.bins - 1;
}

__device__ void add_to(const HistogramCall& call, std::int64_t bin, unsigned long long count) {
  atomicAdd(reinterpret_cast<unsigned long long*>(call.to + bin * call.to_step), count);
}

// Counts are integers, so that their sums do not depend on the order.
template <class T>
__device__ void count_bins(const HistogramCall& call) {
  __shared__ unsigned counts[kBlockBins];
  const bool is_small = call.bins <= kBlockBins;
  for (int b = static_cast<int>(threadIdx.x); is_small && b < call.bins; b += kBlock) counts[b] = 0;
  __syncthreads();
  for (std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x; i < call.elements.numel;
       i += std::int64_t{gridDim.x} * kBlock) {
    std::int64_t at[1];
    offsets_at(call.elements, i, at);
    const std::int64_t bin = bin_of(call, load<T>(call.from, call.in, at[0]));
    if (bin < 0) continue;
    if (is_small) {
      atomicAdd(&counts[bin], 1U);
    } else {
      add_to(call, bin, 1);
    }
  }
  __syncthreads();
  for (int b = static_cast<int>(threadIdx.x); is_small && b < call.bins; b += kBlock) {
    if (counts[b] != 0) add_to(call, b, counts[b]);
  }
}

}  // namespace

/// Sets all counts to zero.
extern "C" __global__ void __launch_bounds__(kBlock) histogram_clear(const __grid_constant__ HistogramCall call) {
  for (std::int64_t b = std::int64_t{blockIdx.x} * kBlock + threadIdx.x; b < call.bins;
       b += std::int64_t{gridDim.x} * kBlock) {
    call.to[b * call.to_step] = 0;
  }
}

#define TESSERA_SCAN_KERNELS(name, T, W)                                                                              \
  extern "C" __global__ void __launch_bounds__(kBlock, 3) scan_##name##_rows(const __grid_constant__ ScanCall c) {    \
    scan_rows<T, W>(c);                                                                                               \
  }                                                                                                                   \
  extern "C" __global__ void __launch_bounds__(kBlock, 2) scan_##name##_columns(const __grid_constant__ ScanCall c) { \
    scan_columns<T, W>(c);                                                                                            \
  }                                                                                                                   \
  extern "C" __global__ void __launch_bounds__(kBlock) histogram_##name(const __grid_constant__ HistogramCall c) {    \
    count_bins<T>(c);                                                                                                 \
  }
TESSERA_SCAN_KERNELS(f32, float, double)
TESSERA_SCAN_KERNELS(f64, double, double)
TESSERA_SCAN_KERNELS(i64, std::int64_t, std::int64_t)

}  // namespace tessera::ops::cuda
