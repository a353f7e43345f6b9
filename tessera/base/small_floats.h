// Floating-point types narrower than float: f16 (IEEE half), bf16 (the upper half of a float), f8e4m3 and f8e5m2 (the
// two 8-bit formats of accelerators). They store bits and convert; arithmetic uses float.
//
//            sign exp frac  bias   largest   min normal    inf   nan
//   f16        1   5   10    15     65504      2^-14       yes   yes
//   bf16       1   8    7   127   3.39e38      2^-126      yes   yes
//   f8e4m3     1   4    3     7       448      2^-6        no    0x7f, 0xff   (the "fn" variant: finite, with nan)
//   f8e5m2     1   5    2    15     57344      2^-14       yes   yes
//
// Widening is exact and implicit. Narrowing is explicit and rounds once, to nearest, ties to even: a double or a 64-bit
// integer is never rounded to float first. Subnormals are kept. Beyond the largest finite value (by more than half a
// step) the result is infinity, or nan if the format has no infinity; saturate<T>() returns the largest finite value
// instead. A nan stays a quiet nan of the same sign, with the upper bits of its payload.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "tessera/base/export.h"

namespace tessera {
namespace detail {

/// Widths of the fields of a format. If kInf, the largest exponent encodes
/// infinities; otherwise only all ones is a nan.
template <class BitsType, int Exponent, int Fraction, bool Inf>
struct FloatFormat {
  using Bits = BitsType;
  static constexpr int kFraction = Fraction;
  static constexpr int kBias = (1 << (Exponent - 1)) - 1;
  static constexpr bool kInf = Inf;
  static constexpr Bits kSign = static_cast<Bits>(1u << (Exponent + Fraction));
  static constexpr Bits kExponents = static_cast<Bits>(((1u << Exponent) - 1) << Fraction);
  static constexpr Bits kQuietNan = static_cast<Bits>(Inf ? kExponents | (1u << (Fraction - 1)) : kSign - 1);
  static constexpr Bits kLargest = static_cast<Bits>(Inf ? kExponents - 1 : kSign - 2);
};

// Shifts right and rounds to nearest, ties to even.
template <class Word>
constexpr Word shift_rounded(Word value, int shift) {
  if (shift > std::numeric_limits<Word>::digits - 1) return 0;
  const Word odd = (value >> shift) & 1;
  return static_cast<Word>((value + ((Word{1} << (shift - 1)) - 1) + odd) >> shift);
}

/// Returns the bits of `value` in format F, rounded once.
template <class F, std::floating_point Source>
constexpr typename F::Bits narrowed(Source value) {
  using Word = std::conditional_t<sizeof(Source) == 8, std::uint64_t, std::uint32_t>;
  constexpr int kFraction = std::numeric_limits<Source>::digits - 1;
  constexpr int kBias = std::numeric_limits<Source>::max_exponent - 1;
  constexpr int kDrop = kFraction - F::kFraction;
  constexpr Word kInfinity = static_cast<Word>(2 * kBias + 1) << kFraction;
  constexpr Word kSignBit = Word{1} << (sizeof(Word) * 8 - 1);
  using Bits = typename F::Bits;

  const Word word = std::bit_cast<Word>(value);
  const Word magnitude = word & ~kSignBit;
  const Bits sign = (word & kSignBit) != 0 ? F::kSign : Bits{0};
  if (magnitude > kInfinity) {
    const Word payload = F::kInf ? (magnitude >> kDrop) & ((Word{1} << F::kFraction) - 1) : 0;
    return static_cast<Bits>(sign | F::kQuietNan | static_cast<Bits>(payload));
  }
  constexpr Bits kOverflow = F::kInf ? F::kExponents : F::kQuietNan;
  const int exponent = static_cast<int>(magnitude >> kFraction) - kBias;
  if (exponent > F::kBias + 1) return static_cast<Bits>(sign | kOverflow);
  Word rounded = 0;
  if (exponent >= 1 - F::kBias) {
    // A carry out of the fraction correctly raises the exponent, up to infinity.
    rounded = shift_rounded<Word>(magnitude - (static_cast<Word>(kBias - F::kBias) << kFraction), kDrop);
  } else if (magnitude != 0) {
    // Subnormal in F. Subnormals of the source lack the hidden bit; their exponent is one higher than encoded.
    const bool hidden = (magnitude >> kFraction) != 0;
    const Word significand = (magnitude & ((Word{1} << kFraction) - 1)) | (hidden ? Word{1} << kFraction : 0);
    rounded = shift_rounded<Word>(significand, kDrop + (1 - F::kBias) - (hidden ? exponent : exponent + 1));
  }
  if (rounded > F::kLargest) return static_cast<Bits>(sign | kOverflow);
  return static_cast<Bits>(sign | static_cast<Bits>(rounded));
}

/// Returns the exact value of bits in format F.
template <class F>
constexpr float widened(typename F::Bits bits) {
  constexpr int kDrop = 23 - F::kFraction;
  const std::uint32_t sign = (bits & F::kSign) != 0 ? 0x80000000u : 0u;
  std::uint32_t magnitude = bits & static_cast<std::uint32_t>(F::kSign - 1);
  const bool is_special = F::kInf ? magnitude >= F::kExponents : magnitude == F::kQuietNan;
  if (is_special) {
    magnitude = F::kInf ? (magnitude << kDrop) | 0x7f800000u : 0x7fc00000u;
    return std::bit_cast<float>(sign | magnitude);
  }
  if constexpr (F::kBias == 127) {
    return std::bit_cast<float>(sign | magnitude << kDrop);  // same exponents as a float, subnormals included
  } else {
    int exponent = static_cast<int>(magnitude >> F::kFraction);
    std::uint32_t fraction = magnitude & ((1u << F::kFraction) - 1);
    if (exponent == 0) {
      if (fraction == 0) return std::bit_cast<float>(sign);
      const int lift = std::countl_zero(fraction) - (31 - F::kFraction);  // every subnormal is a normal float
      fraction = (fraction << lift) & ((1u << F::kFraction) - 1);
      exponent = 1 - lift;
    }
    return std::bit_cast<float>(sign | static_cast<std::uint32_t>(exponent + 127 - F::kBias) << 23 | fraction << kDrop);
  }
}

/// Returns a double that rounds to any narrow format as the integer would: one sticky bit replaces the bits beyond 53.
template <std::integral T>
constexpr double sticky_double(T value) {
  const bool negative = value < 0;
  std::uint64_t magnitude = static_cast<std::uint64_t>(value);
  if (negative) magnitude = ~magnitude + 1;
  double result = 0;
  if (magnitude >> 53 == 0) {
    result = static_cast<double>(magnitude);
  } else {
    const std::uint64_t sticky = (magnitude & 0x7ff) != 0 ? 1 : 0;
    result = static_cast<double>(magnitude >> 11 | sticky) * 2048.0;
  }
  return negative ? -result : result;
}

/// A number in format F. Trivial: may be copied as bytes and left uninitialized in arrays.
template <class F>
class SmallFloat {
 public:
  /// The unsigned integer that holds the bits.
  using Bits = typename F::Bits;
  /// Leaves the value uninitialized, like a float; SmallFloat{} is zero.
  SmallFloat() = default;
  /// Rounds once, to nearest, ties to even. Overflow gives infinity, or nan if the format has no infinity.
  constexpr explicit SmallFloat(float value) : bits_(narrowed<F>(value)) {}
  /// Rounds once from double precision.
  constexpr explicit SmallFloat(double value) : bits_(narrowed<F>(value)) {}
  /// Rounds once from the integer.
  template <std::integral T>
  constexpr explicit SmallFloat(T value) : bits_(narrowed<F>(sticky_double(value))) {}
  /// Returns the number with these bits.
  static constexpr SmallFloat from_bits(Bits bits) {
    SmallFloat result{};
    result.bits_ = bits;
    return result;
  }
  /// Returns the bits.
  [[nodiscard]] constexpr Bits bits() const { return bits_; }
  /// Converts exactly.
  constexpr operator float() const { return widened<F>(bits_); }  // NOLINT: loses nothing
  /// Returns the largest finite value.
  static constexpr SmallFloat largest() { return from_bits(F::kLargest); }

 private:
  Bits bits_;
};

}  // namespace detail

/// IEEE half precision.
using f16 = detail::SmallFloat<detail::FloatFormat<std::uint16_t, 5, 10, true>>;
/// The upper half of a float.
using bf16 = detail::SmallFloat<detail::FloatFormat<std::uint16_t, 8, 7, true>>;
/// 8 bits, 3 of fraction; no infinities, one nan of each sign, largest 448.
using f8e4m3 = detail::SmallFloat<detail::FloatFormat<std::uint8_t, 4, 3, false>>;
/// 8 bits, 2 of fraction; infinities and nans as in f16, largest 57344.
using f8e5m2 = detail::SmallFloat<detail::FloatFormat<std::uint8_t, 5, 2, true>>;

/// Narrows like T(value), but returns the largest finite value for values beyond it, including infinities.
template <class T, std::floating_point Source>
constexpr T saturate(Source value) {
  constexpr Source kLargest = static_cast<float>(T::largest());
  if (value > kLargest) return T::largest();
  if (value < -kLargest) return T(-kLargest);
  return T(value);
}

/// Returns the number as text, formatted like a float.
TESSERA_API std::string to_string(f16 value);
/// Returns the number as text, formatted like a float.
TESSERA_API std::string to_string(bf16 value);
/// Returns the number as text, formatted like a float.
TESSERA_API std::string to_string(f8e4m3 value);
/// Returns the number as text, formatted like a float.
TESSERA_API std::string to_string(f8e5m2 value);

}  // namespace tessera
