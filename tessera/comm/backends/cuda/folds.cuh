// Reductions by all blocks of a grid, 16 bytes at a time if the addresses allow. The result equals that of reduction.h
// bit for bit, except that a GPU has one nan: values are combined in the order of the inputs, in f32 for 16-bit floats,
// each product is rounded before it is added, and the result is rounded once. Integers need only the bits of their
// average.
//
// Loads bypass the L1 cache, since peers write the data while the kernel runs.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "tessera/comm/backends/cuda/copies.cuh"

namespace tessera::comm::cuda {

/// See Reduction.
enum class Fold : std::uint32_t { kSum, kAvg, kMin, kMax, kProd, kBitAnd, kBitOr, kBitXor, kPremultiply };

namespace folds {

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;
// Accumulator of integers: the same type if overflow may wrap, 64 bits if the sum must not overflow.
template <class T, Fold kFold>
struct AccumulatorOf {
  using Narrow = std::conditional_t<(sizeof(T) < 4), std::int32_t, std::make_signed_t<T>>;
  using Integer = std::conditional_t<kFold == Fold::kAvg, std::int64_t, Narrow>;
  using type = std::conditional_t<std::is_signed_v<T>, Integer, std::make_unsigned_t<Integer>>;
};
template <Fold kFold>
struct AccumulatorOf<double, kFold> {
  using type = double;
};
template <class T, Fold kFold>
requires(kIsHalf<T> || std::is_same_v<T, float>) struct AccumulatorOf<T, kFold> {
  using type = float;
};

template <class A, class T>
__device__ A widen(T value) {
  if constexpr (std::is_same_v<T, __half>)
    return __half2float(value);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __bfloat162float(value);
  else
    return static_cast<A>(value);
}
template <class T, class A>
__device__ T narrow(A value) {
  if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(value);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(value);
  else
    return static_cast<T>(value);
}

// Operations that are never contracted into one rounding; integers wrap.
__device__ inline float sum(float a, float b) { return __fadd_rn(a, b); }
__device__ inline double sum(double a, double b) { return __dadd_rn(a, b); }
__device__ inline float product(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double product(double a, double b) { return __dmul_rn(a, b); }
__device__ inline float quotient(float a, float b) { return __fdiv_rn(a, b); }
__device__ inline double quotient(double a, double b) { return __ddiv_rn(a, b); }
template <class A>
__device__ A sum(A a, A b) {
  using U = std::make_unsigned_t<A>;
  return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
}
template <class A>
__device__ A product(A a, A b) {
  using U = std::make_unsigned_t<A>;
  return static_cast<A>(static_cast<U>(a) * static_cast<U>(b));
}
template <class A>
__device__ A quotient(A a, A b) {
  return a / b;
}

template <Fold kFold, class A>
__device__ A combine(A a, A b) {
  if constexpr (kFold == Fold::kProd) return product(a, b);
  // A nan compares false with every value, so it replaces a number and stays.
  else if constexpr (kFold == Fold::kMin)
    return b < a || b != b ? b : a;
  else if constexpr (kFold == Fold::kMax)
    return b > a || b != b ? b : a;
  else if constexpr (kFold == Fold::kBitAnd)
    return a & b;
  else if constexpr (kFold == Fold::kBitOr)
    return a | b;
  else if constexpr (kFold == Fold::kBitXor)
    return a ^ b;
  else
    return sum(a, b);
}

template <class T>
union Vector {
  uint4 words;
  T lanes[16 / sizeof(T)];
  __device__ Vector() {}
};

/// Inputs and outputs at the first element of a row.
struct Streams {
  const std::byte* const* in;
  int inputs;
  std::byte* const* out;
  int outputs;
};

template <class T, Fold kFold>
struct Folding {
  using A = typename AccumulatorOf<T, kFold>::type;
  static constexpr int kLanes = 16 / sizeof(T);
  static constexpr int kAhead = 3;  // inputs loaded with the first, and then at a time

  Streams streams;
  A factor;

  __device__ A scaled(A value) const {
    if constexpr (kFold == Fold::kPremultiply)
      return product(value, factor);
    else
      return value;
  }
  __device__ A ended(A value) const {
    if constexpr (kFold == Fold::kAvg)
      return quotient(value, static_cast<A>(streams.inputs));
    else
      return value;
  }
  __device__ A element(int input, std::int64_t at) const {
    return scaled(widen<A>(__ldcg(reinterpret_cast<const T*>(streams.in[input]) + at)));
  }
  __device__ uint4 vector(int input, std::int64_t at) const {
    return __ldcg(reinterpret_cast<const uint4*>(streams.in[input] + at));
  }

  __device__ void elements(std::int64_t first, std::int64_t end) const {
#pragma unroll 1
    for (std::int64_t at = first + grid_thread(); at < end; at += grid_threads()) {
      A total = element(0, at);
#pragma unroll 1
      for (int i = 1; i < streams.inputs; ++i) total = combine<kFold>(total, element(i, at));
      const T result = narrow<T>(ended(total));
#pragma unroll 1
      for (int i = 0; i < streams.outputs; ++i) reinterpret_cast<T*>(streams.out[i])[at] = result;
    }
  }

  /// Reduces the vector at byte `at`, aligned to 16 in all streams.
  __device__ void fold_vector(std::int64_t at) const {
    Vector<T> result;
    result.words = vector(0, at);
    A total[kLanes];
#pragma unroll 1
    for (int done = 1; done < streams.inputs || done == 1; done += kAhead) {
      Vector<T> next[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (done + i < streams.inputs) next[i].words = vector(done + i, at);
      }
      if (done == 1) {
#pragma unroll
        for (int lane = 0; lane < kLanes; ++lane) total[lane] = scaled(widen<A>(result.lanes[lane]));
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (done + i >= streams.inputs) continue;
#pragma unroll
        for (int lane = 0; lane < kLanes; ++lane) {
          total[lane] = combine<kFold>(total[lane], scaled(widen<A>(next[i].lanes[lane])));
        }
      }
    }
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) result.lanes[lane] = narrow<T>(ended(total[lane]));
#pragma unroll 1
    for (int i = 0; i < streams.outputs; ++i) *reinterpret_cast<uint4*>(streams.out[i] + at) = result.words;
  }

  /// Reduces `count` elements.
  __device__ void run(std::int64_t count) const {
    const std::uintptr_t over = address_of(streams.in[0]) % 16;
    bool is_even = true;
    for (int i = 0; i < streams.inputs; ++i) is_even &= address_of(streams.in[i]) % 16 == over;
    for (int i = 0; i < streams.outputs; ++i) is_even &= address_of(streams.out[i]) % 16 == over;
    const auto to_boundary = static_cast<std::int64_t>(over == 0 ? 0 : (16 - over) / sizeof(T));
    const std::int64_t head = !is_even || to_boundary > count ? count : to_boundary;
    const std::int64_t body = (count - head) / kLanes * 16;  // bytes
    constexpr auto kItem = static_cast<std::int64_t>(sizeof(T));
#pragma unroll 1
    for (std::int64_t at = grid_thread() * 16; at < body; at += grid_threads() * 16) fold_vector(head * kItem + at);
    // The elements before the first boundary and after the last.
    elements(0, head);
    elements(head + body / kItem, count);
  }
};

}  // namespace folds

/// Reduces `count` elements of each input into every output.
template <class T, Fold kFold>
__device__ void fold(double factor, const folds::Streams& streams, std::int64_t count) {
  using Folding = folds::Folding<T, kFold>;
  Folding{streams, static_cast<typename Folding::A>(factor)}.run(count);
}

}  // namespace tessera::comm::cuda
