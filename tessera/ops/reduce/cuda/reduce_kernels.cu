// Sums over any dimensions, without atomics. The order of additions depends only on sizes, so that a sum always has the
// same bits, whatever the addresses of its operands.
//
//   by rows      adjacent elements belong to one result: a block, or some threads of a warp, sum it
//   by columns   adjacent elements belong to adjacent results: each thread sums one result
//   chunks       with few results, each is split; chunk sums go to scratch and a second launch adds them
//
// Runs of kRun elements are added in the compute type, everything else in the wider type W: f32 is added in f64.
#include "tessera/ops/cuda/raw_vectors.cuh"
#include "tessera/ops/cuda/strided.cuh"
#include "tessera/ops/reduce/cuda/reduce_call.h"

namespace tessera::ops::cuda {
namespace {

constexpr int kBlock = 256;  // threads per block of the kernels by rows
constexpr int kUnroll = 4;   // runs that a thread has in flight
constexpr unsigned kAllLanes = 0xffffffff;

__device__ float plus(float a, float b) { return a + b; }
__device__ double plus(double a, double b) { return a + b; }
__device__ std::int64_t plus(std::int64_t a, std::int64_t b) {  // wraps
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
template <class P>
__device__ Complex<P> plus(Complex<P> a, Complex<P> b) {
  return {a.re + b.re, a.im + b.im};
}

template <class T>
__device__ T zero() {
  return convert<T>(std::int64_t{0});
}

__device__ double from_lane_below(double value, int by, int width) {
  return __shfl_down_sync(kAllLanes, value, by, width);
}
__device__ std::int64_t from_lane_below(std::int64_t value, int by, int width) {
  return static_cast<std::int64_t>(__shfl_down_sync(kAllLanes, static_cast<long long>(value), by, width));
}
__device__ Complex<double> from_lane_below(Complex<double> value, int by, int width) {
  return {from_lane_below(value.re, by, width), from_lane_below(value.im, by, width)};
}

/// Returns the sum over groups of `width` lanes in the first lane of each group. All lanes of the warp must call it.
template <class W>
__device__ W folded_lanes(W value, int width) {
  for (int by = width / 2; by > 0; by /= 2) value = plus(value, from_lane_below(value, by, width));
  return value;
}

template <class T>
__device__ T run_sum(const T (&x)[kRun]) {
  return plus(plus(x[0], x[1]), plus(x[2], x[3]));
}

template <class T>
__device__ void count_truths(const ReduceCall& call, T (&x)[kRun]) {
  if constexpr (std::is_same_v<T, std::int64_t>) {
    if (!call.is_truth) return;
#pragma unroll
    for (int k = 0; k < kRun; ++k) x[k] = x[k] != 0 ? 1 : 0;
  }
}

/// Loads the elements of one run that is not contiguous; zeros from `last` on.
template <class T>
__device__ void gather_run(const ReduceCall& call, std::int64_t base, std::int64_t run, std::int64_t last,
                           T (&x)[kRun]) {
#pragma unroll
  for (int k = 0; k < kRun; ++k) {
    const std::int64_t r = run * kRun + k;
    x[k] = zero<T>();
    if (r >= last) continue;
    std::int64_t at[1];
    offsets_at(call.folded, r, at);
    x[k] = load<T>(call.from, call.in, base + at[0]);
  }
}

/// Sums the elements of one thread in [first, last) of a result: every `threads`-th run from its `place` on.
template <class T, class W>
__device__ W fold_part(const ReduceCall& call, std::int64_t base, std::int64_t first, std::int64_t last, int place,
                       int threads) {
  W sum = zero<W>();
  const std::int64_t end = (last + kRun - 1) / kRun;
  std::int64_t run = first / kRun + place;
  for (; run + std::int64_t{kUnroll - 1} * threads < end; run += std::int64_t{kUnroll} * threads) {
    T x[kUnroll][kRun];
    if (call.has_vectors) {
      RawVector<T, kRun> raw[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        std::int64_t at[1];
        offsets_at(call.folded, run + std::int64_t{u} * threads, at);
        load_raw(raw[u], call.from, call.in, base + at[0]);
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) convert_raw(x[u], raw[u], call.in);
    } else {
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) gather_run(call, base, run + std::int64_t{u} * threads, last, x[u]);
    }
    T sums[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      count_truths(call, x[u]);
      sums[u] = run_sum(x[u]);
    }
    sum = plus(sum, convert<W>(run_sum(sums)));
  }
  for (; run < end; run += threads) {
    T x[kRun];
    if (call.has_vectors) {
      std::int64_t at[1];
      offsets_at(call.folded, run, at);
      load_vector<kRun>(x, call.from, call.in, base + at[0]);
    } else {
      gather_run(call, base, run, last, x);
    }
    count_truths(call, x);
    sum = plus(sum, convert<W>(run_sum(x)));
  }
  return sum;
}

__device__ double over(double value, double divisor) { return value / divisor; }
__device__ std::int64_t over(std::int64_t value, double) { return value; }
__device__ Complex<double> over(Complex<double> value, double divisor) {
  return {value.re / divisor, value.im / divisor};
}

template <class T, class W>
__device__ void store_result(const ReduceCall& call, std::int64_t result, W value) {
  std::int64_t at[1];
  offsets_at(call.kept, result, at);
  if (call.has_divisor) value = over(value, call.divisor);
  store(convert<T>(value), call.to, call.out, at[0]);
}

/// Stores the sum of a chunk of a result.
template <class T, class W>
__device__ void put(const ReduceCall& call, std::int64_t result, W value) {
  if (call.partial != nullptr) {
    static_cast<W*>(call.partial)[blockIdx.y * call.results + result] = value;
  } else {
    store_result<T>(call, result, value);
  }
}

struct Stretch {
  std::int64_t first;
  std::int64_t last;
};
__device__ Stretch stretch_of(const ReduceCall& call) {
  const std::int64_t first = blockIdx.y * call.stretch;
  const std::int64_t end = first + call.stretch;
  return {first, end < call.reduced ? end : call.reduced};
}

/// Sums with one block per result.
template <class T, class W>
__device__ void fold_by_blocks(const ReduceCall& call) {
  __shared__ W sums[kBlock / 32];
  const std::int64_t result = blockIdx.x;
  std::int64_t at[2];
  offsets_at(call.kept, result, at);
  const Stretch stretch = stretch_of(call);
  W sum = fold_part<T, W>(call, at[1], stretch.first, stretch.last, static_cast<int>(threadIdx.x), kBlock);
  sum = folded_lanes(sum, 32);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = threadIdx.x < kBlock / 32 ? sums[threadIdx.x] : zero<W>();
  sum = folded_lanes(sum, kBlock / 32);
  if (threadIdx.x == 0) put<T>(call, result, sum);
}

/// Sums with some lanes of a warp per result, in one chunk.
template <class T, class W>
__device__ void fold_by_lanes(const ReduceCall& call) {
  const int lane = static_cast<int>(threadIdx.x) % call.group;
  const std::int64_t result = blockIdx.x * std::int64_t{kBlock / call.group} + threadIdx.x / call.group;
  const bool is_there = result < call.results;  // all lanes of a warp must continue
  W sum = zero<W>();
  if (is_there) {
    std::int64_t at[2];
    offsets_at(call.kept, result, at);
    sum = fold_part<T, W>(call, at[1], 0, call.reduced, lane, call.group);
  }
  sum = folded_lanes(sum, call.group);
  if (is_there && lane == 0) put<T>(call, result, sum);
}

/// Sums the elements first + deep, and every kColumnsDeep-th element after it, of the result at `base`.
template <class T, class W>
__device__ W fold_column(const ReduceCall& call, std::int64_t base, Stretch stretch) {
  W sum = zero<W>();
  for (std::int64_t r = stretch.first + threadIdx.y; r < stretch.last; r += std::int64_t{kRun} * kColumnsDeep) {
    T x[kRun];
    std::int64_t places[kRun];
#pragma unroll
    for (int k = 0; k < kRun; ++k) {
      std::int64_t at[1] = {0};
      const std::int64_t row = r + k * kColumnsDeep;
      if (row < stretch.last) offsets_at(call.folded, row, at);
      places[k] = row < stretch.last ? base + at[0] : -1;
    }
    const bool is_read = elements::with_own_type<T>(call.in, [&]<class S>(const S*) {
      S read[kRun];
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
        if (r + k * kColumnsDeep < stretch.last) read[k] = static_cast<const S*>(call.from)[places[k]];
      }
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
        x[k] = r + k * kColumnsDeep < stretch.last ? elements::from_memory<T>(read[k]) : zero<T>();
      }
    });
    if (!is_read) {
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
        x[k] = r + k * kColumnsDeep < stretch.last ? load<T>(call.from, call.in, places[k]) : zero<T>();
      }
    }
    count_truths(call, x);
    sum = plus(sum, convert<W>(run_sum(x)));
  }
  return sum;
}

template <class T, class W>
__device__ void fold_by_columns(const ReduceCall& call) {
  __shared__ W sums[kColumnsDeep][kColumnsAcross];
  const std::int64_t result = std::int64_t{blockIdx.x} * kColumnsAcross + threadIdx.x;
  const bool is_there = result < call.results;
  if (is_there) {
    std::int64_t at[2];
    offsets_at(call.kept, result, at);
    sums[threadIdx.y][threadIdx.x] = fold_column<T, W>(call, at[1], stretch_of(call));
  }
  __syncthreads();
  if (!is_there || threadIdx.y != 0) return;
  W sum = sums[0][threadIdx.x];
#pragma unroll
  for (int deep = 1; deep < kColumnsDeep; ++deep) sum = plus(sum, sums[deep][threadIdx.x]);
  put<T>(call, result, sum);
}

/// Adds the chunks of each result, with one warp per result.
template <class T, class W>
__device__ void fold_stretches(const ReduceCall& call) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t result = blockIdx.x * std::int64_t{kBlock / 32} + threadIdx.x / 32;
  if (result >= call.results) return;  // a complete warp
  W sum = zero<W>();
  for (int s = lane; s < call.stretches; s += 32) {
    sum = plus(sum, static_cast<const W*>(call.partial)[s * call.results + result]);
  }
  sum = folded_lanes(sum, 32);
  if (lane == 0) store_result<T>(call, result, sum);
}

}  // namespace

#define TESSERA_SUM_KERNELS(name, T, W)                                                                                \
  extern "C" __global__ void __launch_bounds__(kBlock) sum_##name##_blocks(const __grid_constant__ ReduceCall call) {  \
    fold_by_blocks<T, W>(call);                                                                                        \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(kBlock) sum_##name##_lanes(const __grid_constant__ ReduceCall call) {   \
    fold_by_lanes<T, W>(call);                                                                                         \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(kBlock) sum_##name##_columns(const __grid_constant__ ReduceCall call) { \
    fold_by_columns<T, W>(call);                                                                                       \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(kBlock)                                                                 \
      sum_##name##_stretches(const __grid_constant__ ReduceCall call) {                                                \
    fold_stretches<T, W>(call);                                                                                        \
  }
TESSERA_SUM_KERNELS(f32, float, double)
TESSERA_SUM_KERNELS(f64, double, double)
TESSERA_SUM_KERNELS(i64, std::int64_t, std::int64_t)
TESSERA_SUM_KERNELS(c64, Complex<float>, Complex<double>)

}  // namespace tessera::ops::cuda
