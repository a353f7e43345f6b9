// Steps of reductions: a step takes elements into the value of a thread, joins two values, and converts the value of a
// result. A step has
//
//   Element   type that elements are converted to        Wide     type of a value
//   take()    adds the first n of N elements              join()   joins two values, the left one first
//   identity()                                            result() converts the value of a result to an element
//
// take() receives elements in runs of kLength adjacent ones; `first` is the index of the first element and `jump` the
// distance between runs. Values of equal elements do not depend on the run, the thread or the block that takes them
// first, only on sizes.
#pragma once

#include "tessera/ops/cuda/elements.cuh"
#include "tessera/ops/reduce/cuda/reduce_call.h"

namespace tessera::ops::cuda {

template <class T>
__device__ T zero() {
  return convert<T>(std::int64_t{0});
}
template <class T>
__device__ T plus(T a, T b) {
  return detail::combined(detail::Fold::kSum, a, b);
}
template <class T>
__device__ bool is_nan(T value) {
  return value != value;
}

/// Joins N elements, a power of two, in pairs. Overwrites them.
template <int N, class T, class F>
__device__ T tree(T* x, const F& join) {
  if constexpr (N > 1) {
#pragma unroll
    for (int k = 0; k < N / 2; ++k) x[k] = join(x[k], x[k + N / 2]);
    return tree<N / 2>(x, join);
  }
  return x[0];
}
template <int N, class T>
__device__ T tree_sum(T (&x)[N]) {
  return tree<N>(x, [](T a, T b) { return plus(a, b); });
}

template <class T, class W>
__device__ T finished_as(const FoldRule& call, W value) {
  return convert<T>(detail::finished(call.finish, value, call.parameter));
}

/// Sums of plain elements: each group of elements in T, groups in W.
template <class T, class W>
struct SumStep {
  using Element = T;
  using Wide = W;
  static __device__ W identity(const FoldRule&) { return zero<W>(); }
  template <int kLength, int N>
  static __device__ void take(const FoldRule&, W& sum, T (&x)[N], int n, std::int64_t, std::int64_t) {
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] = k < n ? x[k] : zero<T>();
    sum = plus(sum, convert<W>(tree_sum(x)));
  }
  static __device__ W join(const FoldRule&, W a, W b) { return plus(a, b); }
  static __device__ T result(const FoldRule& call, W value) { return finished_as<T>(call, value); }
};

template <class T>
__device__ __noinline__ T power_of(T x, double p) {
  return detail::mapped<detail::Map::kPower>(x, p);
}

/// Any fold of mapped elements: sums of groups in T, products in W, maxima and minima in both.
template <class T, class W>
struct FoldStep {
  using Element = T;
  using Wide = W;
  using Map = detail::Map;
  using Fold = detail::Fold;
  template <class V>
  static __device__ V identity_in(const FoldRule& call) {
    return detail::identity_of<V>(call.fold, call.map, call.limit);
  }
  static __device__ W identity(const FoldRule& call) { return identity_in<W>(call); }

  template <Map kMap, int N>
  static __device__ void map_all(const FoldRule& call, T (&x)[N]) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      if constexpr (kMap == Map::kPower) {
        x[k] = power_of(x[k], call.parameter);
      } else {
        x[k] = detail::mapped<kMap>(x[k], call.parameter);
      }
    }
  }
  template <int N>
  static __device__ void map_by(const FoldRule& call, T (&x)[N]) {
    switch (call.map) {
      case Map::kAbs: return map_all<Map::kAbs>(call, x);
      case Map::kSquare: return map_all<Map::kSquare>(call, x);
      case Map::kPower: return map_all<Map::kPower>(call, x);
      case Map::kNonZero: return map_all<Map::kNonZero>(call, x);
      case Map::kDiffers: return map_all<Map::kDiffers>(call, x);
      default: return;
    }
  }
  template <Fold kFold, class V, int N>
  static __device__ W folded(T (&x)[N]) {
    V wide[N];
#pragma unroll
    for (int k = 0; k < N; ++k) wide[k] = static_cast<V>(x[k]);
    return static_cast<W>(tree<N>(wide, [](V a, V b) { return detail::combined(kFold, a, b); }));
  }
  template <int kLength, int N>
  static __device__ void take(const FoldRule& call, W& value, T (&x)[N], int n, std::int64_t, std::int64_t) {
    map_by(call, x);
    if (n < N) {
      const T none = identity_in<T>(call);
#pragma unroll
      for (int k = 0; k < N; ++k) x[k] = k < n ? x[k] : none;
    }
    W group;
    switch (call.fold) {
      case Fold::kSum: group = folded<Fold::kSum, T>(x); break;
      case Fold::kProd: group = folded<Fold::kProd, W>(x); break;
      case Fold::kMax: group = folded<Fold::kMax, T>(x); break;
      default: group = folded<Fold::kMin, T>(x); break;
    }
    value = join(call, value, group);
  }
  static __device__ W join(const FoldRule& call, W a, W b) { return detail::combined(call.fold, a, b); }
  static __device__ T result(const FoldRule& call, W value) { return finished_as<T>(call, value); }
};

}  // namespace tessera::ops::cuda
