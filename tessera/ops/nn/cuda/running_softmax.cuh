// The maximum of a row and the sum of exp(element - maximum), in one pass over the row.
#pragma once

#include "tessera/ops/nn/cuda/row_groups.cuh"

namespace tessera::ops::cuda {

/// The maximum and the sum of some elements. Minus infinity adds nothing; a nan makes the sum nan.
template <class T>
struct Running {
  T most;
  T sum;

  /// Returns the statistics of no elements.
  __device__ static Running none() { return {minus_infinity<T>(), T(0)}; }
  /// Returns the number that is subtracted: the maximum, if it is not minus infinity.
  __device__ static T shift(T most) { return most == minus_infinity<T>() ? T(0) : most; }
  /// Returns this of the thread at distance `by` in the warp.
  __device__ Running other(int by) const {
    return {__shfl_xor_sync(0xffffffffU, most, by), __shfl_xor_sync(0xffffffffU, sum, by)};
  }
  /// Adds elements. The sum is rescaled when the maximum rises.
  template <int N>
  __device__ void add(const T (&x)[N]) {
    T larger_most = x[0];
#pragma unroll
    for (int k = 1; k < N; ++k) larger_most = larger(larger_most, x[k]);
    if (larger_most > most) {
      sum *= exp_of(most - larger_most);
      most = larger_most;
    }
    const T by = shift(most);
#pragma unroll
    for (int k = 0; k < N; ++k) sum += exp_of(x[k] - by);
  }
};
/// Returns the statistics of both.
template <class T>
__device__ Running<T> merged(const Running<T>& a, const Running<T>& b) {
  const T most = larger(a.most, b.most);
  const T by = Running<T>::shift(most);
  return {most, a.sum * exp_of(a.most - by) + b.sum * exp_of(b.most - by)};
}

}  // namespace tessera::ops::cuda
