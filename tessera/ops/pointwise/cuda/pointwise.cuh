// Kernels of pointwise operators. A table (pointwise/detail/*_rows.h) defines the formulas; this file and dense.cuh
// load and store the values.
//
//   name_f32, name_bf16  contiguous operands of this dtype: vectors of 16 bytes, four in flight per thread
//   name_rows            f32, bf16 and f16 in any mix: vectors along the innermost dimension, the others by a walk
//   family_any_f32, ...  any strides and dtypes, one element at a time; one kernel per compute type for all formulas
//                        of a table
//
// One thread reads and then writes each element, so that the result may be one of the inputs.
#pragma once

#include "tessera/ops/cuda/raw_vectors.cuh"
#include "tessera/ops/cuda/strided.cuh"
#include "tessera/ops/pointwise/cuda/dense.cuh"

namespace tessera::ops::cuda {

/// The loop over vectors of rows, which computes in float.
template <class Formula>
struct Rows {
  static constexpr int kInputs = Formula::kInputs;
  static constexpr int kUnroll = walk_unroll(kInputs);
  static constexpr bool kHasMask = (Formula::kTypes & kFirstIsMask) != 0;
  using Raw = RawVector<float, kVector>;

  static __device__ inline void load_inputs(const WalkCall& call, const std::int64_t (&at)[kInputs + 1],
                                            Raw (&raw)[kInputs]) {
#pragma unroll
    for (int in = 0; in < kInputs; ++in) {
      const PointwiseOperand& operand = call.inputs[in];
      if (operand.is_splat) continue;
      if (kHasMask && in == 0) {
        elements::load_items<1>(raw[in], operand.data, at[in + 1]);
      } else {
        load_raw(raw[in], operand.data, operand.dtype, at[in + 1]);
      }
    }
  }
  static __device__ inline void convert_input(const PointwiseOperand& operand, std::int64_t at, const Raw& raw,
                                              bool is_mask, float (&to)[kVector]) {
    if (operand.is_splat) {
      const float value =
          operand.data == nullptr ? constant_of<float>(operand) : load<float>(operand.data, operand.dtype, at);
#pragma unroll
      for (int k = 0; k < kVector; ++k) to[k] = value;
    } else if (is_mask) {
#pragma unroll
      for (int k = 0; k < kVector; ++k) to[k] = (raw.words[0].x >> 8 * k & 0xff) != 0 ? 1.0F : 0.0F;
    } else {
      convert_raw(to, raw, operand.dtype);
    }
  }
  static __device__ inline void finish(const WalkCall& call, const std::int64_t (&at)[kInputs + 1],
                                       const Raw (&raw)[kInputs]) {
    float x[kInputs][kVector];
#pragma unroll
    for (int in = 0; in < kInputs; ++in) {
      convert_input(call.inputs[in], at[in + 1], raw[in], kHasMask && in == 0, x[in]);
    }
    float y[kVector];
    apply<Formula>(Lane<float>(), y, x);
    if constexpr ((Formula::kTypes & kToBool) != 0) {
      Pack<Truth, kVector>::store(y, call.out, at[0]);
    } else {
      store_vector<kVector>(y, call.out, call.out_dtype, at[0]);
    }
  }

  static __device__ inline void run(const WalkCall& call) {
    const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
    for (std::int64_t e = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < call.walk.numel;
         e += kUnroll * stride) {
      std::int64_t at[kUnroll][kInputs + 1];
      Raw raw[kUnroll][kInputs];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (e + u * stride >= call.walk.numel) continue;
        offsets_at(call.walk, e + u * stride, at[u]);
        load_inputs(call, at[u], raw[u]);
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (e + u * stride < call.walk.numel) finish(call, at[u], raw[u]);
      }
    }
  }
};

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
    if constexpr (cuda::computes_in<float>(name##_formula::kTypes)) cuda::Rows<name##_formula>::run(call);        \
  }

#define TESSERA_CUDA_INDEX(name, ...) k_##name,
#define TESSERA_CUDA_CASE(name, ...) \
  case k_##name:                     \
    return cuda::value_of<name##_formula>(hwy::N_CUDA::Lane<T>(), x);
#define TESSERA_CUDA_ANY(family, suffix, Type)                                                       \
  extern "C" __global__ void family##_##suffix(const __grid_constant__ cuda::WalkCall call) {        \
    using T = Type;                                                                                  \
    cuda::run_any<T>(call, [&](const T(&x)[cuda::kMaxInputs]) { return result_of<T>(call.op, x); }); \
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
  TESSERA_CUDA_ANY(family, any_f32, float)                                        \
  TESSERA_CUDA_ANY(family, any_f64, double)                                       \
  TESSERA_CUDA_ANY(family, any_i64, std::int64_t)                                 \
  TESSERA_CUDA_ANY(family, any_c64, cuda::C64)
