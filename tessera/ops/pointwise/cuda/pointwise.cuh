// Kernels of pointwise operators. A table (pointwise/detail/*_rows.h) defines the formulas; this file and dense.cuh
// load and store the values.
//
//   name_f32, name_bf16  contiguous operands of this dtype: vectors of 16 bytes, four in flight per thread
//   name_rows            f32, bf16, f16 and bool in any mix: vectors along the innermost dimension, the others by a
//   walk family_rows_i64, ... the same in the other compute types, in one kernel for all formulas of a table
//   family_any_f32, ...  any strides and dtypes, one element at a time, for all formulas of a table
//
// One thread reads and then writes each element, so that the result may be one of the inputs.
#pragma once

#include "tessera/ops/cuda/raw_vectors.cuh"
#include "tessera/ops/cuda/strided.cuh"
#include "tessera/ops/pointwise/cuda/dense.cuh"

namespace tessera::ops::cuda {

template <class T>
__device__ inline void load_input(RawVector<T, kVector>& to, const PointwiseOperand& operand, std::int64_t at) {
  if (operand.dtype == DType::kBool) {
    elements::load_items<1>(to, operand.data, at);
  } else {
    load_raw(to, operand.data, operand.dtype, at);
  }
}
template <class T>
__device__ inline void convert_input(T (&to)[kVector], const RawVector<T, kVector>& from,
                                     const PointwiseOperand& operand, std::int64_t at) {
  if (operand.is_splat) {
    const T value = operand.data == nullptr ? constant_of<T>(operand) : load<T>(operand.data, operand.dtype, at);
#pragma unroll
    for (int k = 0; k < kVector; ++k) to[k] = value;
  } else if (operand.dtype == DType::kBool) {
#pragma unroll
    for (int k = 0; k < kVector; ++k) to[k] = convert<T>((from.words[0].x >> 8 * k & 0xff) != 0);
  } else {
    convert_raw(to, from, operand.dtype);
  }
}
template <class T>
__device__ inline void store_results(const T (&from)[kVector], const WalkCall& call, std::int64_t at) {
  if (call.out_dtype == DType::kBool) {
    std::uint32_t word = 0;
#pragma unroll
    for (int k = 0; k < kVector; ++k) word |= (convert<bool>(from[k]) ? 1U : 0U) << 8 * k;
    *reinterpret_cast<std::uint32_t*>(static_cast<std::uint8_t*>(call.out) + at) = word;
  } else {
    store_vector<kVector>(from, call.out, call.out_dtype, at);
  }
}

/// The loop over vectors in T. results(y, x) computes them from the inputs.
template <class T, int kInputs, class F>
__device__ inline void run_vectors(const WalkCall& call, F results) {
  constexpr int kUnroll = walk_unroll(kInputs);
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t e = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < call.walk.numel;
       e += kUnroll * stride) {
    std::int64_t at[kUnroll][kInputs + 1];
    RawVector<T, kVector> raw[kUnroll][kInputs];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (e + u * stride >= call.walk.numel) continue;
      offsets_at(call.walk, e + u * stride, at[u]);
#pragma unroll
      for (int in = 0; in < kInputs; ++in) {
        if (in >= call.count) continue;
        if (!call.inputs[in].is_splat) load_input(raw[u][in], call.inputs[in], at[u][in + 1]);
      }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (e + u * stride >= call.walk.numel) continue;
      T x[kInputs][kVector];
#pragma unroll
      for (int in = 0; in < kInputs; ++in) {
        if (in < call.count) convert_input(x[in], raw[u][in], call.inputs[in], at[u][in + 1]);
      }
      T y[kVector];
      results(y, x);
      store_results(y, call, at[u][0]);
    }
  }
}
/// The loop over vectors in float, for one formula.
template <class Formula>
__device__ inline void run_rows(const WalkCall& call) {
  run_vectors<float, Formula::kInputs>(call, [](float(&y)[kVector], const float(&x)[Formula::kInputs][kVector]) {
    apply<Formula>(Lane<float>(), y, x);
  });
}

/// The loop over elements in T. value(x) computes a result from its inputs.
template <class T, class F>
__device__ inline void run_any(const WalkCall& call, F value) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t e = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < call.walk.numel; e += stride) {
    std::int64_t at[kMaxInputs + 1];
    offsets_at(call.walk, e, at);
    T x[kMaxInputs] = {};
#pragma unroll
    for (int in = 0; in < kMaxInputs; ++in) {
      if (in >= call.count) break;
      const PointwiseOperand& operand = call.inputs[in];
      x[in] = operand.data == nullptr ? constant_of<T>(operand) : load<T>(operand.data, operand.dtype, at[in + 1]);
    }
    store(value(x), call.out, call.out_dtype, at[0]);
  }
}

}  // namespace tessera::ops::cuda

/// Defines the kernels of one formula. They are empty, and never launched, if it has no floating dtypes.
#define TESSERA_CUDA_KERNELS(name, ...)                                                                           \
  extern "C" __global__ void __launch_bounds__(256, cuda::blocks_each<name##_formula>())                          \
      name##_f32(const __grid_constant__ cuda::DenseCall call) {                                                  \
    if constexpr (cuda::computes_in<float>(name##_formula::kTypes))                                               \
      cuda::Dense<name##_formula, float, cuda::ResultOf<name##_formula, float>>::run(call);                       \
  }                                                                                                               \
  extern "C" __global__ void __launch_bounds__(256, cuda::blocks_each<name##_formula>())                          \
      name##_bf16(const __grid_constant__ cuda::DenseCall call) {                                                 \
    if constexpr (cuda::computes_in<float>(name##_formula::kTypes))                                               \
      cuda::Dense<name##_formula, bf16, cuda::ResultOf<name##_formula, bf16>>::run(call);                         \
  }                                                                                                               \
  extern "C" __global__ void __launch_bounds__(256, 3) name##_rows(const __grid_constant__ cuda::WalkCall call) { \
    if constexpr (cuda::computes_in<float>(name##_formula::kTypes)) cuda::run_rows<name##_formula>(call);         \
  }

#define TESSERA_CUDA_INDEX(name, ...) k_##name,
#define TESSERA_CUDA_CASE(name, ...) \
  case k_##name:                     \
    return cuda::value_of<name##_formula>(hwy::N_CUDA::Lane<T>(), x);
#define TESSERA_CUDA_ROWS_CASE(name, ...) \
  case k_##name:                          \
    return cuda::apply<name##_formula>(hwy::N_CUDA::Lane<T>(), y, x);
#define TESSERA_CUDA_ANY(family, suffix, Type)                                                       \
  extern "C" __global__ void family##_any_##suffix(const __grid_constant__ cuda::WalkCall call) {    \
    using T = Type;                                                                                  \
    cuda::run_any<T>(call, [&](const T(&x)[cuda::kMaxInputs]) { return result_of<T>(call.op, x); }); \
  }
#define TESSERA_CUDA_ROWS(family, suffix, Type)                                                                     \
  extern "C" __global__ void __launch_bounds__(256, 2)                                                              \
      family##_rows_##suffix(const __grid_constant__ cuda::WalkCall call) {                                         \
    using T = Type;                                                                                                 \
    cuda::run_vectors<T, cuda::kMaxInputs>(                                                                         \
        call, [&](T(&y)[cuda::kVector], const T(&x)[cuda::kMaxInputs][cuda::kVector]) { compute(call.op, y, x); }); \
  }
/// Defines all kernels of the formulas of a table, after the formulas themselves.
#define TESSERA_CUDA_FAMILY(family, FORMULAS)                                     \
  FORMULAS(TESSERA_CUDA_KERNELS)                                                  \
  enum Index { FORMULAS(TESSERA_CUDA_INDEX) };                                    \
  template <class T>                                                              \
  __device__ inline T result_of(std::int32_t op, const T(&x)[cuda::kMaxInputs]) { \
    switch (op) { FORMULAS(TESSERA_CUDA_CASE) }                                   \
    return T();                                                                   \
  }                                                                               \
  template <class T>                                                              \
  __device__ inline void compute(std::int32_t op, T(&y)[cuda::kVector],           \
                                 const T(&x)[cuda::kMaxInputs][cuda::kVector]) {  \
    switch (op) { FORMULAS(TESSERA_CUDA_ROWS_CASE) }                              \
  }                                                                               \
  TESSERA_CUDA_ANY(family, f32, float)                                            \
  TESSERA_CUDA_ANY(family, f64, double)                                           \
  TESSERA_CUDA_ANY(family, i64, std::int64_t)                                     \
  TESSERA_CUDA_ANY(family, c64, cuda::C64)                                        \
  TESSERA_CUDA_ROWS(family, f64, double)                                          \
  TESSERA_CUDA_ROWS(family, i64, std::int64_t)                                    \
  TESSERA_CUDA_ROWS(family, c64, cuda::C64)
