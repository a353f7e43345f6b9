// Vector loads in two steps: the bytes, then their conversion. A thread that loads the bytes of several vectors before
// it converts the first keeps all loads in flight, which full memory bandwidth requires.
#pragma once

#include <cstdint>
#include <cstring>

#include "tessera/ops/cuda/elements.cuh"

namespace tessera::ops::cuda {

/// The bytes of N elements of a dtype that kernels in T read in place (elements.cuh). Never longer than N elements of
/// T.
template <class T, int N>
struct RawVector {
  static_assert(N * sizeof(T) % 16 == 0, "whole words");
  uint4 words[N * sizeof(T) / 16];
};

namespace elements {

template <int kItem, class T, int N>
__device__ inline void load_items(RawVector<T, N>& to, const void* from, std::int64_t i) {
  constexpr int kNbytes = N * kItem;
  const char* at = static_cast<const char*>(from) + i * kItem;
  if constexpr (kNbytes % 16 == 0) {
#pragma unroll
    for (int w = 0; w < kNbytes / 16; ++w) to.words[w] = reinterpret_cast<const uint4*>(at)[w];
  } else if constexpr (kNbytes == 8) {
    const uint2 low = *reinterpret_cast<const uint2*>(at);
    to.words[0].x = low.x;
    to.words[0].y = low.y;
  } else {
    static_assert(kNbytes == 4, "a word, two or whole vectors of four");
    to.words[0].x = *reinterpret_cast<const std::uint32_t*>(at);
  }
}

}  // namespace elements

/// Starts to load elements `i` to `i + N - 1` of `from`, as load_vector() does, for a dtype that T reads in place.
template <class T, int N>
__device__ inline void load_raw(RawVector<T, N>& to, const void* from, DType dtype, std::int64_t i) {
  const std::size_t item = itemsize(dtype);
  if constexpr (sizeof(T) >= 8) {
    if (item == 8) return elements::load_items<8>(to, from, i);
  }
  if constexpr (sizeof(T) == 4 || std::is_same_v<T, std::int64_t>) {
    if (item == 4) return elements::load_items<4>(to, from, i);
  }
  if constexpr (std::is_same_v<T, float>) elements::load_items<2>(to, from, i);
  if constexpr (std::is_same_v<T, std::int64_t>) elements::load_items<1>(to, from, i);
}

/// Converts the loaded bytes to T.
template <class T, int N>
__device__ inline void convert_raw(T (&to)[N], const RawVector<T, N>& from, DType dtype) {
  elements::with_own_type<T>(dtype, [&]<class S>(const S*) {
    S read[N];
    memcpy(read, from.words, N * sizeof(S));
#pragma unroll
    for (int k = 0; k < N; ++k) to[k] = elements::from_memory<T>(read[k]);
  });
}

}  // namespace tessera::ops::cuda
