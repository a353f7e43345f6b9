// Kernels of pointwise operators. A row of a table (arithmetic_rows.h) defines the computation for one element; this
// file loads and stores the values.
//
//   dense     all operands are contiguous: vectors of 16 bytes, two in flight per thread
//   rows      the innermost dimension in vectors, the others by a walk: a bias added to rows
//   strided   anything else, one element at a time
//
// One thread reads and then writes each element, so that the result may be one of the inputs.
#pragma once

#include "tessera/ops/cuda/raw_vectors.cuh"
#include "tessera/ops/cuda/strided.cuh"
#include "tessera/ops/pointwise/cuda/pointwise_call.h"
#include "tessera/ops/pointwise/detail/types.h"

namespace tessera::ops::cuda {

using namespace detail;  // NOLINT(google-build-using-namespace): the words of the tables

/// Returns true if a row of these types computes in T.
template <class T>
constexpr bool computes_in(unsigned types) {
  if (std::is_same_v<T, float> || std::is_same_v<T, double>) return (types & kFloats) != 0;
  if (std::is_same_v<T, std::int64_t>) return (types & (kIntegers | kBools)) != 0;
  return (types & kComplex) != 0;
}

template <class T>
__device__ inline T constant_of(const PointwiseOperand& operand) {
  if (operand.data != nullptr) return load<T>(operand.data, operand.dtype, 0);
  T value;
  memcpy(&value, &operand.number, sizeof(T) < 8 ? sizeof(T) : 8);  // numbers have types of at most 8 bytes
  return value;
}

template <class Row, class T, int N>
__device__ inline void apply(T (&to)[N], const T (&from)[Row::kInputs][N]) {
#pragma unroll
  for (int k = 0; k < N; ++k) {
    T at_place[Row::kInputs];
#pragma unroll
    for (int i = 0; i < Row::kInputs; ++i) at_place[i] = from[i][k];
    to[k] = Row::template apply<T>(at_place);
  }
}

/// Processes a full tile of contiguous elements: the vectors of this thread.
template <class Row, class T, int N>
__device__ inline void run_dense_tile(const DenseCall& call, const T (&constants)[Row::kInputs], std::int64_t start) {
  RawVector<T, N> raw[kUnroll][Row::kInputs];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const std::int64_t i = start + (std::int64_t{u} * blockDim.x + threadIdx.x) * N;
#pragma unroll
    for (int in = 0; in < Row::kInputs; ++in) {
      if (!call.inputs[in].is_constant) load_raw(raw[u][in], call.inputs[in].data, call.inputs[in].dtype, i);
    }
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const std::int64_t i = start + (std::int64_t{u} * blockDim.x + threadIdx.x) * N;
    T x[Row::kInputs][N];
#pragma unroll
    for (int in = 0; in < Row::kInputs; ++in) {
      if (call.inputs[in].is_constant) {
#pragma unroll
        for (int k = 0; k < N; ++k) x[in][k] = constants[in];
      } else {
        convert_raw(x[in], raw[u][in], call.inputs[in].dtype);
      }
    }
    T y[N];
    apply<Row, T, N>(y, x);
    store_vector<N>(y, call.out, call.out_dtype, i);
  }
}

template <class Row, class T, int N>
__device__ inline void run_dense(const DenseCall& call) {
  if constexpr (Row::template kComputes<T>) {
    T constants[Row::kInputs];
#pragma unroll
    for (int in = 0; in < Row::kInputs; ++in) {
      if (call.inputs[in].is_constant) constants[in] = constant_of<T>(call.inputs[in]);
    }
    const std::int64_t tile = std::int64_t{blockDim.x} * N * kUnroll;
    for (std::int64_t start = blockIdx.x * tile; start < call.numel; start += gridDim.x * tile) {
      if (call.has_vectors && start + tile <= call.numel) {
        run_dense_tile<Row, T, N>(call, constants, start);
        continue;
      }
      const std::int64_t end = start + tile < call.numel ? start + tile : call.numel;
      for (std::int64_t i = start + threadIdx.x; i < end; i += blockDim.x) {
        T x[Row::kInputs];
#pragma unroll
        for (int in = 0; in < Row::kInputs; ++in) {
          x[in] = call.inputs[in].is_constant ? constants[in] : load<T>(call.inputs[in].data, call.inputs[in].dtype, i);
        }
        store(Row::template apply<T>(x), call.out, call.out_dtype, i);
      }
    }
  }
}

template <class Row, class T>
__device__ inline void run_strided(const StridedCall& call) {
  if constexpr (Row::template kComputes<T>) {
    const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
    for (std::int64_t e = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < call.walk.numel; e += stride) {
      std::int64_t at[Row::kInputs + 1];
      offsets_at(call.walk, e, at);
      T x[Row::kInputs];
#pragma unroll
      for (int in = 0; in < Row::kInputs; ++in) {
        const PointwiseOperand& operand = call.inputs[in];
        x[in] = operand.data == nullptr ? constant_of<T>(operand) : load<T>(operand.data, operand.dtype, at[in + 1]);
      }
      store(Row::template apply<T>(x), call.out, call.out_dtype, at[0]);
    }
  }
}

template <class Row, class T>
__device__ inline void run_rows(const StridedCall& call) {
  if constexpr (Row::template kComputes<T>) {
    const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
    for (std::int64_t e = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < call.walk.numel; e += stride) {
      std::int64_t at[Row::kInputs + 1];
      offsets_at(call.walk, e, at);
      RawVector<T, kVector> raw[Row::kInputs];
#pragma unroll
      for (int in = 0; in < Row::kInputs; ++in) {
        const PointwiseOperand& operand = call.inputs[in];
        if (!operand.is_splat) load_raw(raw[in], operand.data, operand.dtype, at[in + 1]);
      }
      T x[Row::kInputs][kVector];
#pragma unroll
      for (int in = 0; in < Row::kInputs; ++in) {
        const PointwiseOperand& operand = call.inputs[in];
        if (operand.is_splat) {
          const T value =
              operand.data == nullptr ? constant_of<T>(operand) : load<T>(operand.data, operand.dtype, at[in + 1]);
#pragma unroll
          for (int k = 0; k < kVector; ++k) x[in][k] = value;
        } else {
          convert_raw(x[in], raw[in], operand.dtype);
        }
      }
      T y[kVector];
      apply<Row, T, kVector>(y, x);
      store_vector<kVector>(y, call.out, call.out_dtype, at[0]);
    }
  }
}

}  // namespace tessera::ops::cuda

/// Defines the row as a type: its function of the inputs a, b and c (those it has) of one element.
#define TESSERA_CUDA_ROW(name, inputs, types, ...)                               \
  struct name##_row {                                                            \
    static constexpr int kInputs = inputs;                                       \
    template <class T>                                                           \
    static constexpr bool kComputes = tessera::ops::cuda::computes_in<T>(types); \
    template <class T>                                                           \
    static __device__ T apply(const T (&in)[inputs]) {                           \
      [[maybe_unused]] const T a = in[0];                                        \
      [[maybe_unused]] const T b = in[inputs > 1 ? 1 : 0];                       \
      [[maybe_unused]] const T c = in[inputs > 2 ? 2 : 0];                       \
      return __VA_ARGS__;                                                        \
    }                                                                            \
  };
/// Defines the kernels of a row in one type: name_dense and name_strided.
#define TESSERA_CUDA_TYPED_KERNELS(name, row, T)                                    \
  extern "C" __global__ void name##_dense(const __grid_constant__ DenseCall call) { \
    run_dense<row, T, kVector>(call);                                               \
  }                                                                                 \
  extern "C" __global__ void name##_strided(const __grid_constant__ StridedCall call) { run_strided<row, T>(call); }
/// Defines the kernels in float, including those that only float has.
#define TESSERA_CUDA_FLOAT_KERNELS(name, row)                                                                \
  TESSERA_CUDA_TYPED_KERNELS(name, row, float)                                                               \
  extern "C" __global__ void __launch_bounds__(256, 3) name##_wide(const __grid_constant__ DenseCall call) { \
    run_dense<row, float, kWide>(call);                                                                      \
  }                                                                                                          \
  extern "C" __global__ void name##_rows(const __grid_constant__ StridedCall call) { run_rows<row, float>(call); }
/// Defines all kernels of a row. Kernels in types that it does not compute in are empty and never looked up.
#define TESSERA_CUDA_KERNELS(name, inputs, types, ...)             \
  TESSERA_CUDA_ROW(name, inputs, types, __VA_ARGS__)               \
  TESSERA_CUDA_FLOAT_KERNELS(name##_f32, name##_row)               \
  TESSERA_CUDA_TYPED_KERNELS(name##_f64, name##_row, double)       \
  TESSERA_CUDA_TYPED_KERNELS(name##_i64, name##_row, std::int64_t) \
  TESSERA_CUDA_TYPED_KERNELS(name##_c64, name##_row, Complex<float>)
