// Reductions over any dimensions, without atomics. The order in which values are joined depends only on sizes, so that
// a result always has the same bits, whatever the addresses of its operands.
//
//   by rows      adjacent elements belong to one result: a block, or some of its threads, reduces it
//   by columns   adjacent elements belong to adjacent results: each thread reduces a part of one result
//   chunks       with few results, each is split; values of chunks go to scratch and a second launch joins them
//
// reduce_steps.cuh defines what a reduction does with its elements. Sums of f32, bf16 and f16 know the dtype of their
// elements when they are compiled; the others select it at each load. Kernels of plain rows, which are vectors
// of floats at equal distances, contain no function call, which would cost them registers.
#include "tessera/ops/cuda/raw_vectors.cuh"
#include "tessera/ops/cuda/strided.cuh"
#include "tessera/ops/reduce/cuda/reduce_steps.cuh"

namespace tessera::ops::cuda {
namespace {

constexpr int kBlock = 256;  // threads per block
constexpr int kUnroll = 4;   // runs that a thread has in flight
constexpr int kAtOnce = 8;   // elements of a column that a thread has in flight
constexpr unsigned kAllLanes = 0xffffffff;

template <class W>
__device__ W from_lane_below(const W& value, int by, int width) {
  constexpr int kWords = sizeof(W) / 4;
  std::uint32_t words[kWords];
  memcpy(words, &value, sizeof(W));
#pragma unroll
  for (int w = 0; w < kWords; ++w) words[w] = __shfl_down_sync(kAllLanes, words[w], by, width);
  W below;
  memcpy(&below, words, sizeof(W));
  return below;
}

/// Joins the values of groups of `width` lanes in the first lane of each group. All lanes of the warp must call it.
template <class R, class W>
__device__ W joined_lanes(const ReduceCall& call, W value, int width) {
  for (int by = width / 2; by > 0; by /= 2) value = R::join(call, value, from_lane_below(value, by, width));
  return value;
}

__device__ __noinline__ std::int64_t far_offset(const Walk& walk, std::int64_t i) {
  std::int64_t at[1];
  offsets_at(walk, i, at);
  return at[0];
}
/// Returns the offset of element, or run, `i` of a result.
template <bool kIsPlain>
__device__ std::int64_t folded_offset(const ReduceCall& call, std::int64_t i) {
  if (kIsPlain || call.folded.ndim == 1) return call.folded.first[0] + i * call.folded.steps[0][0];
  return far_offset(call.folded, i);
}

template <class T, class S, int N, class At>
__device__ void read_typed(const ReduceCall& call, const At& at, int n, T (&x)[N]) {
  S read[N];
#pragma unroll
  for (int k = 0; k < N; ++k) {
    if (k < n) read[k] = static_cast<const S*>(call.from)[at(k)];
  }
#pragma unroll
  for (int k = 0; k < N; ++k) {
    if (k < n) x[k] = elements::from_memory<T>(read[k]);
  }
}
/// Loads the first n of N elements, at the offsets at(k). S is their type in memory, or void if it is selected here.
template <class T, class S, int N, class At>
__device__ void read_elements(const ReduceCall& call, const At& at, int n, T (&x)[N]) {
  if constexpr (!std::is_void_v<S>) {
    read_typed<T, S>(call, at, n, x);
  } else {
    if (elements::with_own_type<T>(call.in, [&]<class Own>(const Own*) { read_typed<T, Own>(call, at, n, x); })) return;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      if (k < n) x[k] = elements::load_any<T>(call.from, call.in, at(k));
    }
  }
}

/// Loads kRuns vectors, `threads` runs apart.
template <class T, class S, bool kIsPlain, int kLength, int kRuns>
__device__ void load_runs(const ReduceCall& call, std::int64_t base, std::int64_t run, int threads,
                          T (&x)[kRuns * kLength]) {
  if constexpr (!std::is_void_v<S>) {
    uint4 raw[kRuns];
#pragma unroll
    for (int u = 0; u < kRuns; ++u) {
      const std::int64_t at = base + folded_offset<kIsPlain>(call, run + std::int64_t{u} * threads);
      raw[u] = *reinterpret_cast<const uint4*>(static_cast<const S*>(call.from) + at);
    }
#pragma unroll
    for (int u = 0; u < kRuns; ++u) {
      S part[kLength];
      memcpy(part, &raw[u], sizeof(part));
#pragma unroll
      for (int k = 0; k < kLength; ++k) x[u * kLength + k] = elements::from_memory<T>(part[k]);
    }
  } else {
    RawVector<T, kLength> raw[kRuns];
#pragma unroll
    for (int u = 0; u < kRuns; ++u) {
      load_raw(raw[u], call.from, call.in, base + folded_offset<kIsPlain>(call, run + std::int64_t{u} * threads));
    }
#pragma unroll
    for (int u = 0; u < kRuns; ++u) {
      convert_raw(reinterpret_cast<T(&)[kLength]>(x[u * kLength]), raw[u], call.in);
    }
  }
}

/// Takes kRuns runs, `threads` runs apart, of which the last may end at `last`.
template <class R, class S, bool kIsPlain, int kLength, int kRuns, class W>
__device__ void take_runs(const ReduceCall& call, std::int64_t base, std::int64_t run, int threads, std::int64_t last,
                          W& value) {
  using T = typename R::Element;
  constexpr int kElements = kRuns * kLength;
  T x[kElements];
  const std::int64_t jump = std::int64_t{threads} * kLength;
  if (kIsPlain || call.has_vectors) {
    load_runs<T, S, kIsPlain, kLength, kRuns>(call, base, run, threads, x);
    R::template take<kLength>(call, value, x, kElements, run * kLength, jump);
    return;
  }
  if constexpr (kIsPlain) return;
  const std::int64_t beyond = run * kLength + (kRuns - 1) * jump + kLength - last;
  const int n = beyond > 0 ? kElements - static_cast<int>(beyond) : kElements;
  const auto at = [&](int k) {
    return base + folded_offset<false>(call, run * kLength + k / kLength * jump + k % kLength);
  };
  read_elements<T, S>(call, at, n, x);
  R::template take<kLength>(call, value, x, n, run * kLength, jump);
}

/// Reduces the elements of one thread in [first, last) of a result: every `threads`-th run from its `place` on.
template <class R, class S, bool kIsPlain, int kLength, class W>
__device__ void fold_runs(const ReduceCall& call, std::int64_t base, std::int64_t first, std::int64_t last, int place,
                          int threads, W& value) {
  const std::int64_t end = (last + kLength - 1) / kLength;
  std::int64_t run = first / kLength + place;
  for (; run + std::int64_t{kUnroll - 1} * threads < end; run += std::int64_t{kUnroll} * threads) {
    take_runs<R, S, kIsPlain, kLength, kUnroll>(call, base, run, threads, last, value);
  }
  for (; run < end; run += threads) take_runs<R, S, kIsPlain, kLength, 1>(call, base, run, threads, last, value);
}

template <class R>
inline constexpr bool kIsSumOfFloats = std::is_same_v<R, SumStep<float, double>>;

template <class R, bool kIsPlain, class W>
__device__ void fold_part(const ReduceCall& call, std::int64_t base, std::int64_t first, std::int64_t last, int place,
                          int threads, W& value) {
  if constexpr (kIsSumOfFloats<R>) {
    if (elements::with_own_type<float>(call.in, [&]<class S>(const S*) {
          fold_runs<R, S, kIsPlain, 16 / sizeof(S)>(call, base, first, last, place, threads, value);
        })) {
      return;
    }
  }
  fold_runs<R, void, kIsPlain, kRun>(call, base, first, last, place, threads, value);
}

template <class R, class W>
__device__ void store_result(const ReduceCall& call, std::int64_t result, W value) {
  std::int64_t at[1];
  offsets_at(call.kept, result, at);
  store(R::result(call, value), call.to, call.out, at[0]);
}

/// Stores the value of a chunk of a result.
template <class R, class W>
__device__ void put(const ReduceCall& call, std::int64_t result, W value) {
  if (call.partial != nullptr) {
    static_cast<W*>(call.partial)[blockIdx.y * call.results + result] = value;
  } else {
    store_result<R>(call, result, value);
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

/// Joins the values of groups of `call.group` threads in the first thread of each group. All threads must call it.
template <class R, class W>
__device__ W joined_group(const ReduceCall& call, W value) {
  __shared__ W parts[kBlock / 32];
  value = joined_lanes<R>(call, value, call.group < 32 ? call.group : 32);
  if (call.group <= 32) return value;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0) parts[warp] = value;
  __syncthreads();
  if (static_cast<int>(threadIdx.x) % call.group == 0) {
    for (int w = 1; w < call.group / 32; ++w) value = R::join(call, value, parts[warp + w]);
  }
  return value;
}

template <class R, bool kIsPlain>
__device__ void fold_by_rows(const ReduceCall& call) {
  using W = typename R::Wide;
  const int place = static_cast<int>(threadIdx.x) % call.group;
  const std::int64_t result = blockIdx.x * std::int64_t{kBlock / call.group} + threadIdx.x / call.group;
  const bool is_there = result < call.results;  // all threads must continue
  W value = R::identity(call);
  if (is_there) {
    std::int64_t at[2];
    offsets_at(call.kept, result, at);
    const Stretch stretch = stretch_of(call);
    fold_part<R, kIsPlain>(call, at[1], stretch.first, stretch.last, place, call.group, value);
  }
  value = joined_group<R>(call, value);
  if (is_there && place == 0) put<R>(call, result, value);
}

/// Takes the elements first + threadIdx.y, and every kColumnsDeep-th element after it, of the result at `base`.
template <class R>
__device__ typename R::Wide fold_column(const ReduceCall& call, std::int64_t base, Stretch stretch) {
  using T = typename R::Element;
  typename R::Wide value = R::identity(call);
  for (std::int64_t r = stretch.first + threadIdx.y; r < stretch.last; r += std::int64_t{kAtOnce} * kColumnsDeep) {
    const std::int64_t left = (stretch.last - r + kColumnsDeep - 1) / kColumnsDeep;
    const int n = left < kAtOnce ? static_cast<int>(left) : kAtOnce;
    T x[kAtOnce];
    read_elements<T, void>(
        call, [&](int k) { return base + folded_offset<false>(call, r + k * kColumnsDeep); }, n, x);
    R::template take<1>(call, value, x, n, r, kColumnsDeep);
  }
  return value;
}

template <class R>
__device__ void fold_by_columns(const ReduceCall& call) {
  using W = typename R::Wide;
  __shared__ W values[kColumnsDeep][kColumnsAcross];
  const std::int64_t result = std::int64_t{blockIdx.x} * kColumnsAcross + threadIdx.x;
  const bool is_there = result < call.results;
  if (is_there) {
    std::int64_t at[2];
    offsets_at(call.kept, result, at);
    values[threadIdx.y][threadIdx.x] = fold_column<R>(call, at[1], stretch_of(call));
  }
  __syncthreads();
  if (!is_there || threadIdx.y != 0) return;
  W value = values[0][threadIdx.x];
#pragma unroll 1
  for (int deep = 1; deep < kColumnsDeep; ++deep) value = R::join(call, value, values[deep][threadIdx.x]);
  put<R>(call, result, value);
}

/// Joins the chunks of each result.
template <class R>
__device__ void join_stretches(const ReduceCall& call) {
  using W = typename R::Wide;
  const int place = static_cast<int>(threadIdx.x) % call.group;
  const std::int64_t result = blockIdx.x * std::int64_t{kBlock / call.group} + threadIdx.x / call.group;
  const bool is_there = result < call.results;
  W value = R::identity(call);
  if (is_there) {
#pragma unroll 4
    for (int s = place; s < call.stretches; s += call.group) {
      value = R::join(call, value, static_cast<const W*>(call.partial)[s * call.results + result]);
    }
  }
  value = joined_group<R>(call, value);
  if (is_there && place == 0) store_result<R>(call, result, value);
}

}  // namespace

// The bounds keep enough blocks resident for 48 KiB in flight on each multiprocessor.
#define TESSERA_REDUCE_KERNEL(name, bounds, body) \
  extern "C" __global__ void __launch_bounds__ bounds name(const __grid_constant__ ReduceCall c) { body(c); }
#define TESSERA_REDUCE_KERNELS(name, step)                                     \
  TESSERA_REDUCE_KERNEL(name##_rows, (kBlock, 2), (fold_by_rows<step, false>)) \
  TESSERA_REDUCE_KERNEL(name##_columns, (kBlock, 2), (fold_by_columns<step>))  \
  TESSERA_REDUCE_KERNEL(name##_stretches, (kBlock, 2), (join_stretches<step>))

using SumF32 = SumStep<float, double>;
using SumF64 = SumStep<double, double>;
using SumI64 = SumStep<std::int64_t, std::int64_t>;
using SumC64 = SumStep<Complex<float>, Complex<double>>;
using FoldF32 = FoldStep<float, double>;
using FoldF64 = FoldStep<double, double>;
using FoldI64 = FoldStep<std::int64_t, std::int64_t>;

TESSERA_REDUCE_KERNELS(sum_f32, SumF32)
TESSERA_REDUCE_KERNEL(sum_f32_plain_rows, (kBlock, 3), (fold_by_rows<SumF32, true>))
TESSERA_REDUCE_KERNELS(sum_f64, SumF64)
TESSERA_REDUCE_KERNELS(sum_i64, SumI64)
TESSERA_REDUCE_KERNELS(sum_c64, SumC64)
TESSERA_REDUCE_KERNELS(fold_f32, FoldF32)
TESSERA_REDUCE_KERNEL(fold_f32_plain_rows, (kBlock, 3), (fold_by_rows<FoldF32, true>))
TESSERA_REDUCE_KERNELS(fold_f64, FoldF64)
TESSERA_REDUCE_KERNELS(fold_i64, FoldI64)
TESSERA_REDUCE_KERNELS(variance_f32, VarianceStep<float>)
TESSERA_REDUCE_KERNEL(variance_f32_plain_rows, (kBlock, 3), (fold_by_rows<VarianceStep<float>, true>))
TESSERA_REDUCE_KERNELS(variance_f64, VarianceStep<double>)
TESSERA_REDUCE_KERNELS(logsumexp_f32, LogSumExpStep<float>)
TESSERA_REDUCE_KERNEL(logsumexp_f32_plain_rows, (kBlock, 3), (fold_by_rows<LogSumExpStep<float>, true>))
TESSERA_REDUCE_KERNELS(logsumexp_f64, LogSumExpStep<double>)
TESSERA_REDUCE_KERNELS(search_f32, SearchStep<float>)
TESSERA_REDUCE_KERNEL(search_f32_plain_rows, (kBlock, 3), (fold_by_rows<SearchStep<float>, true>))
TESSERA_REDUCE_KERNELS(search_f64, SearchStep<double>)
TESSERA_REDUCE_KERNELS(search_i64, SearchStep<std::int64_t>)

}  // namespace tessera::ops::cuda
