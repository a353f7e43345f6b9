// Kernels of pointwise operators. A table (pointwise/detail/*_rows.h) defines the formulas; this file loads and stores
// the values.
//
//   name_f32, name_bf16  contiguous operands of this dtype: vectors of 16 bytes, four in flight per thread
//   name_rows            f32, bf16 and f16 in any mix: vectors along the innermost dimension, the others by a walk
//   family_f32, ...      any strides and dtypes, one element at a time, in each compute type; one kernel for all formulas
//                        of a table
//
// One thread reads and then writes each element, so that the result may be one of the inputs.
#pragma once

#include <utility>

#include "tessera/ops/cuda/complex.cuh"
#include "tessera/ops/cuda/raw_vectors.cuh"
#include "tessera/ops/cuda/strided.cuh"
#include "tessera/ops/pointwise/cuda/pointwise_call.h"
#include "tessera/ops/pointwise/detail/formulas-inl.h"
#include "tessera/ops/pointwise/detail/formulas.h"

namespace tessera::ops::cuda {

using namespace detail;  // NOLINT(google-build-using-namespace): the words of the tables
using elements::Truth;
using hwy::N_CUDA::Lane;
using hwy::N_CUDA::NarrowLane;

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
/// Returns the results of a formula for vectors.
template <class Formula, class D, class T, int N>
__device__ inline void apply(D d, T (&to)[N], const T (&from)[Formula::kInputs][N]) {
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

/// N adjacent elements of S. The words are loaded first and converted later, so that several vectors are in flight.
template <class S, int N>
struct Pack {
  static constexpr int kNbytes = N * static_cast<int>(sizeof(S));
  using Word = std::conditional_t<kNbytes % 16 == 0, uint4, std::conditional_t<kNbytes % 8 == 0, uint2, std::uint32_t>>;
  static constexpr int kWords = kNbytes / static_cast<int>(sizeof(Word));
  Word words[kWords];

  __device__ void load(const void* from, std::int64_t i) {
    const auto* at = reinterpret_cast<const Word*>(static_cast<const S*>(from) + i);
#pragma unroll
    for (int w = 0; w < kWords; ++w) words[w] = at[w];
  }
  __device__ void unpack(float (&to)[N]) const {
    S read[N];
    memcpy(read, words, kNbytes);
#pragma unroll
    for (int k = 0; k < N; ++k) to[k] = elements::from_memory<float>(read[k]);
  }
  __device__ static void store(const float (&from)[N], void* to, std::int64_t i) {
    S written[N];
    elements::to_memory_all(written, from);
    Word words[kWords];
    memcpy(words, written, kNbytes);
    auto* at = reinterpret_cast<Word*>(static_cast<S*>(to) + i);
#pragma unroll
    for (int w = 0; w < kWords; ++w) at[w] = words[w];
  }
};

/// Calls body(input, const S*) for each input of a formula whose tensors have elements of In; a mask has bools.
template <class Formula, class In, class F, std::size_t... kInput>
__device__ inline void for_inputs(F&& body, std::index_sequence<kInput...>) {
  constexpr bool kHasMask = (Formula::kTypes & kFirstIsMask) != 0;
  (body(std::integral_constant<int, kInput>(),
        static_cast<const std::conditional_t<kHasMask && kInput == 0, Truth, In>*>(nullptr)),
   ...);
}
template <class Formula, class In, class F>
__device__ inline void for_inputs(F&& body) {
  for_inputs<Formula, In>(body, std::make_index_sequence<Formula::kInputs>());
}

/// The dense loop, with elements of In and Out in memory.
template <class Formula, class In, class Out, int N = dense_vector(sizeof(In))>
struct Dense {
  static constexpr int kInputs = Formula::kInputs;
  static constexpr int kUnroll = dense_unroll(kInputs);
  // Narrow results need no accurate functions.
  using D = std::conditional_t<sizeof(In) == 2 && sizeof(Out) <= 2, NarrowLane, Lane<float>>;

  // Processes the vectors of this thread in a full tile.
  static __device__ inline void run_tile(const DenseCall& call, const float (&constants)[kInputs], std::int64_t start) {
    Pack<In, N> packs[kUnroll][kInputs];
    Pack<Truth, N> masks[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const std::int64_t i = start + (std::int64_t{u} * blockDim.x + threadIdx.x) * N;
      for_inputs<Formula, In>([&]<class S>(auto in, const S*) {
        if (call.inputs[in].is_constant) return;
        if constexpr (std::is_same_v<S, Truth>) {
          masks[u].load(call.inputs[in].data, i);
        } else {
          packs[u][in].load(call.inputs[in].data, i);
        }
      });
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const std::int64_t i = start + (std::int64_t{u} * blockDim.x + threadIdx.x) * N;
      float x[kInputs][N];
      for_inputs<Formula, In>([&]<class S>(auto in, const S*) {
        if (call.inputs[in].is_constant) {
#pragma unroll
          for (int k = 0; k < N; ++k) x[in][k] = constants[in];
        } else if constexpr (std::is_same_v<S, Truth>) {
          masks[u].unpack(x[in]);
        } else {
          packs[u][in].unpack(x[in]);
        }
      });
      float y[N];
      apply<Formula>(D(), y, x);
      Pack<Out, N>::store(y, call.out, i);
    }
  }

  static __device__ inline void run(const DenseCall& call) {
    float constants[kInputs];
#pragma unroll
    for (int in = 0; in < kInputs; ++in) {
      if (call.inputs[in].is_constant) constants[in] = constant_of<float>(call.inputs[in]);
    }
    const std::int64_t tile = std::int64_t{blockDim.x} * N * kUnroll;
    for (std::int64_t start = blockIdx.x * tile; start < call.numel; start += gridDim.x * tile) {
      if (call.has_vectors && start + tile <= call.numel) {
        run_tile(call, constants, start);
        continue;
      }
      const std::int64_t end = start + tile < call.numel ? start + tile : call.numel;
      for (std::int64_t i = start + threadIdx.x; i < end; i += blockDim.x) {
        float x[kInputs];
        for_inputs<Formula, In>([&]<class S>(auto in, const S*) {
          const PointwiseOperand& operand = call.inputs[in];
          x[in] = operand.is_constant ? constants[in]
                                      : elements::from_memory<float>(static_cast<const S*>(operand.data)[i]);
        });
        static_cast<Out*>(call.out)[i] = elements::to_memory<Out>(value_of<Formula>(D(), x));
      }
    }
  }
};

/// The loop over vectors of rows, which computes in float.
template <class Formula>
struct Rows {
  static constexpr int kInputs = Formula::kInputs;
  static constexpr int kUnroll = kInputs <= 2 ? 2 : 1;
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

/// Returns the blocks per multiprocessor that registers must allow in dense kernels.
template <class Formula>
constexpr int blocks_each() {
  return Formula::kInputs <= 2 ? 4 : 3;
}

/// Elements of the result of a formula on operands of S.
template <class Formula, class S>
using ResultOf = std::conditional_t<(Formula::kTypes & kToBool) != 0, Truth, S>;

}  // namespace tessera::ops::cuda

/// Defines the kernels of one formula. Those of formulas without floating dtypes are empty and never looked up.
#define TESSERA_CUDA_KERNELS(name, ...)                                                                              \
  extern "C" __global__ void __launch_bounds__(256, cuda::blocks_each<name##_formula>()) name##_f32(const __grid_constant__ cuda::DenseCall call) {    \
    if constexpr (cuda::computes_in<float>(name##_formula::kTypes))                                                  \
      cuda::Dense<name##_formula, float, cuda::ResultOf<name##_formula, float>>::run(call);                          \
  }                                                                                                                  \
  extern "C" __global__ void __launch_bounds__(256, cuda::blocks_each<name##_formula>()) name##_bf16(const __grid_constant__ cuda::DenseCall call) {   \
    if constexpr (cuda::computes_in<float>(name##_formula::kTypes))                                                  \
      cuda::Dense<name##_formula, bf16, cuda::ResultOf<name##_formula, bf16>>::run(call);                            \
  }                                                                                                                  \
  extern "C" __global__ void __launch_bounds__(256, 3) name##_rows(const __grid_constant__ cuda::WalkCall call) {    \
    if constexpr (cuda::computes_in<float>(name##_formula::kTypes)) cuda::Rows<name##_formula>::run(call);           \
  }

#define TESSERA_CUDA_INDEX(name, ...) k_##name,
#define TESSERA_CUDA_CASE(name, ...) \
  case k_##name: return cuda::value_of<name##_formula>(hwy::N_CUDA::Lane<T>(), x);
#define TESSERA_CUDA_ANY(family, suffix, Type)                                                       \
  extern "C" __global__ void family##_##suffix(const __grid_constant__ cuda::WalkCall call) {        \
    using T = Type;                                                                                  \
    cuda::run_any<T>(call, [&](const T(&x)[cuda::kMaxInputs]) { return result_of<T>(call.op, x); }); \
  }
/// Defines all kernels of the formulas of a table, after the formulas themselves.
#define TESSERA_CUDA_FAMILY(family, FORMULAS)                                       \
  FORMULAS(TESSERA_CUDA_KERNELS)                                                    \
  enum Index { FORMULAS(TESSERA_CUDA_INDEX) };                                      \
  template <class T>                                                                \
  __device__ inline T result_of(std::int32_t op, const T (&x)[cuda::kMaxInputs]) {  \
    switch (op) { FORMULAS(TESSERA_CUDA_CASE) }                                     \
    return T();                                                                     \
  }                                                                                 \
  TESSERA_CUDA_ANY(family, any_f32, float)                                          \
  TESSERA_CUDA_ANY(family, any_f64, double)                                         \
  TESSERA_CUDA_ANY(family, any_i64, std::int64_t)                                   \
  TESSERA_CUDA_ANY(family, any_c64, cuda::C64)
