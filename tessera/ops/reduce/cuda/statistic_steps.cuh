// Steps of reductions (reduce_steps.cuh) whose values have several parts: variances, logarithms of sums of
// exponentials, and searches. Each reads its elements once.
#pragma once

#include "tessera/ops/reduce/cuda/reduce_steps.cuh"

namespace tessera::ops::cuda {

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

/// An element and its index, which is -1 before the first element.
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
