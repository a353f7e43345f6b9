// Conversion between float and the floating dtypes of two bytes, by the instructions of the hardware except for nans.
#pragma once

#include <cstdint>

#include "tessera/base/small_floats.h"

namespace tessera::ops::cuda {

/// Converts exactly.
__device__ inline float widen(bf16 value) { return __uint_as_float(std::uint32_t{value.bits()} << 16); }
/// Converts two elements, the first in the low half of a word.
__device__ inline void widen_pair(float& first, float& second, std::uint32_t word) {
  first = __uint_as_float(word << 16);
  second = __uint_as_float(word & 0xffff0000U);
}
/// Converts exactly, including nan payloads, which the hardware does not keep.
__device__ inline float widen(f16 value) {
  if ((value.bits() & 0x7fff) > 0x7c00) return static_cast<float>(value);
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits()));
  return wide;
}
/// Rounds to nearest, ties to even; a nan keeps its sign and the upper bits of its payload, unlike in hardware.
__device__ inline bf16 narrow_to_bf16(float value) {
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  const auto of_nan = static_cast<std::uint16_t>((__float_as_uint(value) | 0x400000) >> 16);
  return bf16::from_bits(isnan(value) ? of_nan : bits);
}
/// Rounds to nearest, ties to even; a nan keeps its sign and the upper bits of its payload.
__device__ inline f16 narrow_to_f16(float value) {
  if ((__float_as_uint(value) & 0x7fffffff) > 0x7f800000) return f16(value);
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return f16::from_bits(bits);
}

/// Converts two values to elements, the first in the low half of a word. Neither may be nan.
__device__ inline std::uint32_t narrow_pair(float first, float second, const bf16*) {
  std::uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}
__device__ inline std::uint32_t narrow_pair(float first, float second, const f16*) {
  std::uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}

__device__ inline std::uint16_t narrow_bits(float value, const bf16*) { return narrow_to_bf16(value).bits(); }
__device__ inline std::uint16_t narrow_bits(float value, const f16*) { return narrow_to_f16(value).bits(); }
/// Converts values to elements of S, two in a word, and next to a nan one by one.
template <class S, int N>
__device__ inline void narrow_all(std::uint32_t (&to)[N / 2], const float (&from)[N]) {
  constexpr const S* kType = nullptr;
  bool has_nan = false;
#pragma unroll
  for (int k = 0; k < N; k += 2) {
    has_nan |= from[k] != from[k] || from[k + 1] != from[k + 1];
    to[k / 2] = narrow_pair(from[k], from[k + 1], kType);
  }
  if (!has_nan) return;
#pragma unroll
  for (int k = 0; k < N; k += 2) {
    to[k / 2] = narrow_bits(from[k], kType) | std::uint32_t{narrow_bits(from[k + 1], kType)} << 16;
  }
}

}  // namespace tessera::ops::cuda
