// Kernels of formulas for contiguous operands: vectors of 16 bytes, several of them in flight per thread. The dtypes in
// memory are template parameters, so that no loop contains a switch.
#pragma once

#include "tessera/ops/cuda/elements.cuh"
#include "tessera/ops/pointwise/cuda/values.cuh"

namespace tessera::ops::cuda {

using elements::Truth;
using hwy::N_CUDA::NarrowLane;

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
    if constexpr (std::is_same_v<S, bf16>) {
      std::uint32_t pairs[N / 2];
      memcpy(pairs, words, kNbytes);
#pragma unroll
      for (int k = 0; k < N; k += 2) widen_pair(to[k], to[k + 1], pairs[k / 2]);
    } else {
      S read[N];
      memcpy(read, words, kNbytes);
#pragma unroll
      for (int k = 0; k < N; ++k) to[k] = elements::from_memory<float>(read[k]);
    }
  }
  __device__ static void store(const float (&from)[N], void* to, std::int64_t i) {
    std::uint32_t written[kNbytes / 4];
    elements::to_words<S>(written, from);
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
  static constexpr int kUnroll = dense_unroll(kInputs, N* static_cast<int>(sizeof(In)));
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

/// Returns the blocks per multiprocessor that registers must allow in dense kernels.
template <class Formula>
constexpr int blocks_each() {
  return Formula::kInputs <= 2 ? 4 : 3;
}

/// Elements of the result of a formula on operands of S.
template <class Formula, class S>
using ResultOf = std::conditional_t<(Formula::kTypes & kToBool) != 0, Truth, S>;

}  // namespace tessera::ops::cuda
