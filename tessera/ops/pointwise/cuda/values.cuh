// Results of formulas (pointwise/detail/formulas.h) for the values that a thread holds.
#pragma once

#include <utility>

#include "tessera/ops/cuda/complex.cuh"
#include "tessera/ops/pointwise/cuda/pointwise_call.h"
#include "tessera/ops/pointwise/detail/formulas-inl.h"
#include "tessera/ops/pointwise/detail/formulas.h"

namespace tessera::ops::cuda {

using namespace detail;  // NOLINT(google-build-using-namespace): the words of the tables
using hwy::N_CUDA::Lane;

/// Returns true if a formula of these types computes in T.
template <class T>
constexpr bool computes_in(unsigned types) {
  if (std::is_same_v<T, float> || std::is_same_v<T, double>) return (types & kFloats) != 0;
  if (std::is_same_v<T, std::int64_t>) return (types & (kIntegers | kBools)) != 0;
  return (types & kComplex) != 0;
}

/// Returns the result of a formula for the first inputs among `in`.
template <class Formula, class D, class T, int kCount, std::size_t... kInput>
__device__ inline T value_of(D d, const T (&in)[kCount], std::index_sequence<kInput...>) {
  if constexpr (!computes_in<T>(Formula::kTypes)) {
    return T();
  } else if constexpr (std::is_floating_point_v<T>) {
    return Formula::vec(d, in[kInput]...);
  } else {
    return convert<T>(Formula::one(in[kInput]...));
  }
}
template <class Formula, class D, class T, int kCount>
__device__ inline T value_of(D d, const T (&in)[kCount]) {
  return value_of<Formula>(d, in, std::make_index_sequence<Formula::kInputs>());
}
/// Returns the results of a formula for vectors, the first among `from`.
template <class Formula, class D, class T, int kCount, int N>
__device__ inline void apply(D d, T (&to)[N], const T (&from)[kCount][N]) {
#pragma unroll
  for (int k = 0; k < N; ++k) {
    T at_place[Formula::kInputs];
#pragma unroll
    for (int i = 0; i < Formula::kInputs; ++i) at_place[i] = from[i][k];
    to[k] = value_of<Formula>(d, at_place);
  }
}

template <class T>
__device__ inline T constant_of(const PointwiseOperand& operand) {
  if (operand.data != nullptr) return load<T>(operand.data, operand.dtype, 0);
  T value;
  memcpy(&value, &operand.number, sizeof(T) < 8 ? sizeof(T) : 8);  // numbers have types of at most 8 bytes
  return value;
}

}  // namespace tessera::ops::cuda
