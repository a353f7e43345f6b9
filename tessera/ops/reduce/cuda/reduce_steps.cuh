// What a reduction does with its elements: a step takes elements into the value of a thread, joins two values, and
// stores the result. A step has
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

/// The count, the mean and the sum of squared deviations from the mean.
struct Moments {
  double count, mean, squares;
};

/// Variances: the moments of each group about its own mean, joined by the formula of Chan, Golub and LeVeque. Like two
/// passes, this loses nothing to a large mean.
template <class T>
struct VarianceStep {
  using Element = T;
  using Wide = Moments;
  static __device__ Moments identity(const FoldRule&) { return {0, 0, 0}; }
  template <int kLength, int N>
  static __device__ void take(const FoldRule& call, Moments& value, T (&x)[N], int n, std::int64_t, std::int64_t) {
    T copied[N];
#pragma unroll
    for (int k = 0; k < N; ++k) copied[k] = k < n ? x[k] : T(0);
    const T near = tree_sum(copied) / static_cast<T>(n);  // a rounded mean, corrected below
#pragma unroll
    for (int k = 0; k < N; ++k) {
      x[k] = k < n ? x[k] - near : T(0);
      copied[k] = x[k] * x[k];
    }
    const auto off = static_cast<double>(tree_sum(x));
    const auto squares = static_cast<double>(tree_sum(copied));
    const auto count = static_cast<double>(n);
    value = join(call, value, {count, static_cast<double>(near) + off / count, squares - off * off / count});
  }
  static __device__ Moments join(const FoldRule&, Moments a, Moments b) {
    if (b.count == 0) return a;
    if (a.count == 0) return b;
    const double count = a.count + b.count;
    const double apart = b.mean - a.mean;
    const double share = b.count / count;
    return {count, a.mean + apart * share, a.squares + b.squares + apart * apart * a.count * share};
  }
  static __device__ T result(const FoldRule& call, Moments value) {
    const double left = value.count - call.parameter;
    return static_cast<T>(value.squares / (left > 0 ? left : 0.0));
  }
};

/// A maximum and the sum of exp(x - center), where the center is the maximum, or 0 if that is infinite. The maximum
/// ignores nans, which the sum keeps.
struct ExpSum {
  double most, sum;
};

template <class T>
struct LogSumExpStep {
  using Element = T;
  using Wide = ExpSum;
  static __device__ ExpSum identity(const FoldRule&) { return {-INFINITY, 0}; }
  static __device__ double center(double most) { return isinf(most) ? 0.0 : most; }
  static __device__ double scaled(ExpSum value, double most) {
    return value.most == most ? value.sum : value.sum * exp(value.most - most);
  }
  template <int kLength, int N>
  static __device__ void take(const FoldRule&, ExpSum& value, T (&x)[N], int n, std::int64_t, std::int64_t) {
    T copied[N];
#pragma unroll
    for (int k = 0; k < N; ++k) copied[k] = x[k] = k < n ? x[k] : -static_cast<T>(INFINITY);
    const T most = tree<N>(copied, [](T a, T b) { return fmax(a, b); });
    if (static_cast<double>(most) > value.most) {
      value.sum = scaled(value, static_cast<double>(most));
      value.most = static_cast<double>(most);
    }
    const auto by = static_cast<T>(center(value.most));
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] = exp(x[k] - by);
    value.sum += static_cast<double>(tree_sum(x));
  }
  static __device__ ExpSum join(const FoldRule&, ExpSum a, ExpSum b) {
    const double most = fmax(a.most, b.most);
    return {most, scaled(a, most) + scaled(b, most)};
  }
  static __device__ T result(const FoldRule&, ExpSum value) {
    return static_cast<T>(log(value.sum) + center(value.most));
  }
};

/// An element and its index; -1 if there is none.
template <class T>
struct Found {
  T value;
  std::int64_t index;
};

/// argmax (kMax) and argmin (kMin): a nan comes before all numbers, the lower of two indices before the other.
template <class T>
struct SearchStep {
  using Element = T;
  using Wide = Found<T>;
  static __device__ Found<T> identity(const FoldRule&) { return {T(0), -1}; }
  static __device__ bool is_better(const FoldRule& call, T a, T b) {
    if (is_nan(b)) return false;
    return is_nan(a) || (call.fold == detail::Fold::kMax ? a > b : a < b);
  }
  template <int kLength, int N>
  static __device__ void take(const FoldRule& call, Found<T>& value, T (&x)[N], int n, std::int64_t first,
                              std::int64_t jump) {
#pragma unroll
    for (int k = 0; k < N; ++k) {  // indices ascend
      if (k >= n || (value.index >= 0 && !is_better(call, x[k], value.value))) continue;
      value = {x[k], first + k / kLength * jump + k % kLength};
    }
  }
  static __device__ Found<T> join(const FoldRule& call, Found<T> a, Found<T> b) {
    if (b.index < 0) return a;
    if (a.index < 0 || is_better(call, b.value, a.value)) return b;
    return !is_better(call, a.value, b.value) && b.index < a.index ? b : a;
  }
  static __device__ std::int64_t result(const ReduceCall& call, Found<T> value) {
    const ReduceMap& shard = call.shard;
    if (value.index < 0) return shard.offset;
    if (shard.block == 0) return value.index;
    std::int64_t global = shard.offset + value.index % shard.block;
    std::int64_t rest = value.index / shard.block;
    for (int l = shard.levels; l-- > 0;) {
      global += rest % shard.counts[l] * shard.strides[l];
      rest /= shard.counts[l];
    }
    return global;
  }
};

}  // namespace tessera::ops::cuda
