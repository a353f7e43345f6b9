// Conversion of elements of any dtype to the types that kernels compute in. This is the device side of
// ops/detail/elements.h, with the same rules (ops/detail/conversions.h) and the same bits.
//
//   f32, bf16, f16 (and f8) -> float    f64 -> double    integers and bool -> int64_t    c64 -> Complex<float>
//
// Kernels are not compiled per dtype. The dtype is an argument of the launch, equal for all threads, and selected at
// each load or store of an element or vector. Dtypes that kernels compute with are read in place; all others occur only
// in casts and mixed calls and use a function that is compiled once.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tessera/base/dtype.h"
#include "tessera/ops/cuda/halves.cuh"
#include "tessera/ops/detail/conversions.h"

namespace tessera::ops::cuda {

/// A complex number with the memory layout of std::complex.
template <class Part>
struct alignas(2 * sizeof(Part)) Complex {
  using value_type = Part;
  Part re;
  Part im;
  Complex() = default;
  constexpr Complex(Part real, Part imag) : re(real), im(imag) {}
  explicit constexpr Complex(Part real) : re(real), im(0) {}
  constexpr Part real() const { return re; }
  constexpr Part imag() const { return im; }
};

using detail::convert;

/// Converts an element of type S, as stored in memory, to T.
template <class T, class S>
__device__ T element_as(S element) {
  if constexpr (std::is_same_v<T, float> && (std::is_same_v<S, bf16> || std::is_same_v<S, f16>)) {
    return widen(element);
  } else {
    return convert<T>(element);
  }
}
/// Converts a value to an element of type S.
template <class S, class T>
__device__ S as_element(T value) {
  if constexpr (std::is_same_v<T, float> && std::is_same_v<S, bf16>) {
    return narrow_to_bf16(value);
  } else if constexpr (std::is_same_v<T, float> && std::is_same_v<S, f16>) {
    return narrow_to_f16(value);
  } else {
    return convert<S>(value);
  }
}

namespace elements {

/// A bool as stored in memory. Imported bytes may differ from 0 and 1.
struct Truth {
  std::uint8_t byte;
};
template <class T>
__device__ T read(const void* from, std::int64_t i, const Truth*) {
  return convert<T>(static_cast<const std::uint8_t*>(from)[i] != 0);
}
template <class T, class S>
__device__ T read(const void* from, std::int64_t i, const S*) {
  return element_as<T>(static_cast<const S*>(from)[i]);
}

/// Loads one element of any dtype. Compiled once per file and type.
template <class T>
__device__ __noinline__ T load_any(const void* from, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::kF64: return read<T>(from, i, static_cast<const double*>(nullptr));
    case DType::kF32: return read<T>(from, i, static_cast<const float*>(nullptr));
    case DType::kF16: return read<T>(from, i, static_cast<const f16*>(nullptr));
    case DType::kBF16: return read<T>(from, i, static_cast<const bf16*>(nullptr));
    case DType::kF8E4M3: return read<T>(from, i, static_cast<const f8e4m3*>(nullptr));
    case DType::kF8E5M2: return read<T>(from, i, static_cast<const f8e5m2*>(nullptr));
    case DType::kI64: return read<T>(from, i, static_cast<const std::int64_t*>(nullptr));
    case DType::kI32: return read<T>(from, i, static_cast<const std::int32_t*>(nullptr));
    case DType::kI16: return read<T>(from, i, static_cast<const std::int16_t*>(nullptr));
    case DType::kI8: return read<T>(from, i, static_cast<const std::int8_t*>(nullptr));
    case DType::kU64: return read<T>(from, i, static_cast<const std::uint64_t*>(nullptr));
    case DType::kU32: return read<T>(from, i, static_cast<const std::uint32_t*>(nullptr));
    case DType::kU16: return read<T>(from, i, static_cast<const std::uint16_t*>(nullptr));
    case DType::kU8: return read<T>(from, i, static_cast<const std::uint8_t*>(nullptr));
    case DType::kBool: return read<T>(from, i, static_cast<const Truth*>(nullptr));
    case DType::kC64: return read<T>(from, i, static_cast<const Complex<float>*>(nullptr));
    case DType::kC128: break;
  }
  return read<T>(from, i, static_cast<const Complex<double>*>(nullptr));
}

/// Stores one element of any dtype. Compiled once per file and type.
template <class T>
__device__ __noinline__ void store_any(T value, void* to, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::kF64: static_cast<double*>(to)[i] = as_element<double>(value); return;
    case DType::kF32: static_cast<float*>(to)[i] = as_element<float>(value); return;
    case DType::kF16: static_cast<f16*>(to)[i] = as_element<f16>(value); return;
    case DType::kBF16: static_cast<bf16*>(to)[i] = as_element<bf16>(value); return;
    case DType::kF8E4M3: static_cast<f8e4m3*>(to)[i] = as_element<f8e4m3>(value); return;
    case DType::kF8E5M2: static_cast<f8e5m2*>(to)[i] = as_element<f8e5m2>(value); return;
    case DType::kI64: static_cast<std::int64_t*>(to)[i] = as_element<std::int64_t>(value); return;
    case DType::kI32: static_cast<std::int32_t*>(to)[i] = as_element<std::int32_t>(value); return;
    case DType::kI16: static_cast<std::int16_t*>(to)[i] = as_element<std::int16_t>(value); return;
    case DType::kI8: static_cast<std::int8_t*>(to)[i] = as_element<std::int8_t>(value); return;
    case DType::kU64: static_cast<std::uint64_t*>(to)[i] = as_element<std::uint64_t>(value); return;
    case DType::kU32: static_cast<std::uint32_t*>(to)[i] = as_element<std::uint32_t>(value); return;
    case DType::kU16: static_cast<std::uint16_t*>(to)[i] = as_element<std::uint16_t>(value); return;
    case DType::kU8: static_cast<std::uint8_t*>(to)[i] = as_element<std::uint8_t>(value); return;
    case DType::kBool: static_cast<std::uint8_t*>(to)[i] = as_element<bool>(value) ? 1 : 0; return;
    case DType::kC64: static_cast<Complex<float>*>(to)[i] = as_element<Complex<float>>(value); return;
    case DType::kC128: break;
  }
  static_cast<Complex<double>*>(to)[i] = as_element<Complex<double>>(value);
}

/// Calls body(const S*) and returns true if a kernel in T reads `dtype` in place.
template <class T, class F>
__device__ bool with_own_type(DType dtype, F&& body) {
  if constexpr (std::is_same_v<T, float>) {
    if (dtype == DType::kF32) return body(static_cast<const float*>(nullptr)), true;
    if (dtype == DType::kBF16) return body(static_cast<const bf16*>(nullptr)), true;
    if (dtype == DType::kF16) return body(static_cast<const f16*>(nullptr)), true;
  } else if constexpr (std::is_same_v<T, double>) {
    if (dtype == DType::kF64) return body(static_cast<const double*>(nullptr)), true;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    if (dtype == DType::kI64) return body(static_cast<const std::int64_t*>(nullptr)), true;
    if (dtype == DType::kI32) return body(static_cast<const std::int32_t*>(nullptr)), true;
    if (dtype == DType::kU8) return body(static_cast<const std::uint8_t*>(nullptr)), true;
    if (dtype == DType::kBool) return body(static_cast<const Truth*>(nullptr)), true;
  } else if constexpr (std::is_same_v<T, Complex<float>>) {
    if (dtype == DType::kC64) return body(static_cast<const Complex<float>*>(nullptr)), true;
  }
  return false;
}

template <class T>
__device__ T from_memory(Truth element) {
  return convert<T>(element.byte != 0);
}
template <class T, class S>
__device__ T from_memory(S element) {
  return element_as<T>(element);
}
template <class S, class T>
__device__ S to_memory(T value) {
  if constexpr (std::is_same_v<S, Truth>) {
    return Truth{static_cast<std::uint8_t>(as_element<bool>(value) ? 1 : 0)};
  } else {
    return as_element<S>(value);
  }
}
/// Converts values to the words of their elements.
template <class S, class T, int N>
__device__ inline void to_words(std::uint32_t (&to)[N * sizeof(S) / 4], const T (&from)[N]) {
  if constexpr (std::is_same_v<T, float> && (std::is_same_v<S, bf16> || std::is_same_v<S, f16>)) {
    narrow_all<S>(to, from);
  } else {
    S written[N];
#pragma unroll
    for (int k = 0; k < N; ++k) written[k] = to_memory<S>(from[k]);
    memcpy(to, written, sizeof to);
  }
}

}  // namespace elements

/// Returns element `i` of `from`.
template <class T>
__device__ inline T load(const void* from, DType dtype, std::int64_t i) {
  T value;
  const bool is_read = elements::with_own_type<T>(
      dtype, [&]<class S>(const S*) { value = elements::from_memory<T>(static_cast<const S*>(from)[i]); });
  return is_read ? value : elements::load_any<T>(from, dtype, i);
}
/// Writes element `i` of `to`.
template <class T>
__device__ inline void store(T value, void* to, DType dtype, std::int64_t i) {
  const bool is_written = elements::with_own_type<T>(
      dtype, [&]<class S>(const S*) { static_cast<S*>(to)[i] = elements::to_memory<S>(value); });
  if (!is_written) elements::store_any(value, to, dtype, i);
}

/// Loads elements `i` to `i + N - 1` of `from`. Their address must be a multiple of 16 bytes or of their total size,
/// whichever is less. N is 2, 4, 8 or 16.
template <int N, class T>
__device__ inline void load_vector(T (&to)[N], const void* from, DType dtype, std::int64_t i) {
  const bool is_read = elements::with_own_type<T>(dtype, [&]<class S>(const S*) {
    constexpr int kNbytes = N * static_cast<int>(sizeof(S));
    using Word =
        std::conditional_t<kNbytes % 16 == 0, uint4, std::conditional_t<kNbytes % 8 == 0, uint2, std::uint32_t>>;
    static_assert(kNbytes % sizeof(Word) == 0 || kNbytes < 4, "whole words");
    S elements_read[N];
    if constexpr (kNbytes < 4) {
      for (int k = 0; k < N; ++k) elements_read[k] = static_cast<const S*>(from)[i + k];
    } else {
      Word words[kNbytes / sizeof(Word)];
      const auto* at = reinterpret_cast<const Word*>(static_cast<const S*>(from) + i);
#pragma unroll
      for (int w = 0; w < static_cast<int>(kNbytes / sizeof(Word)); ++w) words[w] = at[w];
      memcpy(elements_read, words, kNbytes);
    }
#pragma unroll
    for (int k = 0; k < N; ++k) to[k] = elements::from_memory<T>(elements_read[k]);
  });
  if (is_read) return;
#pragma unroll
  for (int k = 0; k < N; ++k) to[k] = elements::load_any<T>(from, dtype, i + k);
}
/// Writes elements `i` to `i + N - 1` of `to`. The alignment is that of load_vector().
template <int N, class T>
__device__ inline void store_vector(const T (&from)[N], void* to, DType dtype, std::int64_t i) {
  const bool is_written = elements::with_own_type<T>(dtype, [&]<class S>(const S*) {
    constexpr int kNbytes = N * static_cast<int>(sizeof(S));
    using Word =
        std::conditional_t<kNbytes % 16 == 0, uint4, std::conditional_t<kNbytes % 8 == 0, uint2, std::uint32_t>>;
    if constexpr (kNbytes < 4) {
      for (int k = 0; k < N; ++k) static_cast<S*>(to)[i + k] = elements::to_memory<S>(from[k]);
    } else {
      std::uint32_t written[kNbytes / 4];
      elements::to_words<S>(written, from);
      Word words[kNbytes / sizeof(Word)];
      memcpy(words, written, kNbytes);
      auto* at = reinterpret_cast<Word*>(static_cast<S*>(to) + i);
#pragma unroll
      for (int w = 0; w < static_cast<int>(kNbytes / sizeof(Word)); ++w) at[w] = words[w];
    }
  });
  if (is_written) return;
#pragma unroll
  for (int k = 0; k < N; ++k) elements::store_any(from[k], to, dtype, i + k);
}

}  // namespace tessera::ops::cuda
