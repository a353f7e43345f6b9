// Random numbers as a pure function. Philox4x32-10 (Salmon et al., SC 2011) maps a counter and a key to four words,
// which become uniform or normal numbers. The counter holds the global index of a block of four elements and the call
// number; the key is the seed. The value of an element thus does not depend on sharding, threads or vector width.
//
//   words 0 and 1: index of the block     words 2 and 3: number of the call     key: the seed, low word first
//
// All functions are templates over an arithmetic M: single numbers here (host and CUDA), vectors elsewhere. The
// multiply-adds of M are fused and its other operations correctly rounded, so that all arithmetics produce the same
// bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#if defined(__CUDACC__)
#define TESSERA_HOST_DEVICE __host__ __device__
#else
#define TESSERA_HOST_DEVICE
#endif

namespace tessera::ops::detail {

/// Arithmetic of single numbers.
struct OneByOne {
  using F = float;
  using U = std::uint32_t;
  TESSERA_HOST_DEVICE static F number(float value) { return value; }
  TESSERA_HOST_DEVICE static U word(std::uint32_t value) { return value; }
  TESSERA_HOST_DEVICE static F fma(F a, F b, F c) { return fmaf(a, b, c); }
  TESSERA_HOST_DEVICE static F mul(F a, F b) {
#if defined(__CUDA_ARCH__)
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
  }
  TESSERA_HOST_DEVICE static F sub(F a, F b) {
#if defined(__CUDA_ARCH__)
    return __fsub_rn(a, b);
#else
    return a - b;
#endif
  }
  TESSERA_HOST_DEVICE static F sqrt(F a) {
#if defined(__CUDA_ARCH__)
    return __fsqrt_rn(a);
#else
    return std::sqrt(a);
#endif
  }
  TESSERA_HOST_DEVICE static U bits(F a) {
#if defined(__CUDA_ARCH__)
    return __float_as_uint(a);
#else
    return std::bit_cast<U>(a);
#endif
  }
  TESSERA_HOST_DEVICE static F from_bits(U a) {
#if defined(__CUDA_ARCH__)
    return __uint_as_float(a);
#else
    return std::bit_cast<F>(a);
#endif
  }
  /// Converts a word below 2^25.
  TESSERA_HOST_DEVICE static F to_float(U a) { return static_cast<float>(static_cast<std::int32_t>(a)); }
  template <int kBy>
  TESSERA_HOST_DEVICE static U right(U a) {
    return a >> kBy;
  }
  template <int kBy>
  TESSERA_HOST_DEVICE static U left(U a) {
    return a << kBy;
  }
  TESSERA_HOST_DEVICE static U add(U a, U b) { return a + b; }
  TESSERA_HOST_DEVICE static U less(U a, U b) { return a - b; }
  TESSERA_HOST_DEVICE static U both(U a, U b) { return a & b; }
  TESSERA_HOST_DEVICE static U differing(U a, U b) { return a ^ b; }
  /// Returns a if `choice` is 1 and b if it is 0.
  TESSERA_HOST_DEVICE static F choose(U choice, F a, F b) { return choice != 0 ? a : b; }
  /// Computes the upper and lower half of the product.
  TESSERA_HOST_DEVICE static void product(U a, std::uint32_t b, U& high, U& low) {
    const std::uint64_t whole = std::uint64_t{a} * b;
    high = static_cast<U>(whole >> 32);
    low = static_cast<U>(whole);
  }
};

#include "tessera/ops/detail/philox_steps.inc"

/// Computes the four words of a block of four elements in a call.
TESSERA_HOST_DEVICE inline void words_of_block(std::uint64_t seed, std::uint64_t call, std::uint64_t block,
                                               std::uint32_t (&words)[4]) {
  words[0] = static_cast<std::uint32_t>(block);
  words[1] = static_cast<std::uint32_t>(block >> 32);
  words[2] = static_cast<std::uint32_t>(call);
  words[3] = static_cast<std::uint32_t>(call >> 32);
  philox<OneByOne>(words, seed);
}

}  // namespace tessera::ops::detail
