// The steps of a reduction on one number: the map of an element, the fold of two values, the finish of a result. Host
// and CUDA code compile this header.
//
//   norm(x, 3):   fold kSum, map kPower, finish kRoot, parameter 3
//
// A nan wins every fold, and of equal values the first one remains.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tessera/ops/detail/conversions.h"

namespace tessera::ops::detail {

enum class Fold : std::uint8_t { kSum, kProd, kMax, kMin };
enum class Map : std::uint8_t { kNone, kAbs, kSquare, kPower, kNonZero, kDiffers, kSquaredDeviation, kExp };
enum class Finish : std::uint8_t { kNone, kDivide, kRoot, kAtLeastOne, kVariance, kLogSumExp };

/// Combines two values. Integers wrap. Complex numbers are only added.
template <class W>
constexpr W combined(Fold fold, W a, W b) {
  if constexpr (kIsComplex<W>) {
    return {a.real() + b.real(), a.imag() + b.imag()};
  } else {
    using U = std::conditional_t<std::is_same_v<W, std::int64_t>, std::uint64_t, W>;
    if (fold == Fold::kSum) return static_cast<W>(static_cast<U>(a) + static_cast<U>(b));
    if (fold == Fold::kProd) return static_cast<W>(static_cast<U>(a) * static_cast<U>(b));
    if (a != a) return a;
    if (b != b) return b;
    return (fold == Fold::kMax ? b > a : b < a) ? b : a;
  }
}

/// Returns the result for zero elements. `limit` is the result of a maximum or minimum of integers.
template <class W>
constexpr W identity_of(Fold fold, Map map, std::int64_t limit) {
  if (fold == Fold::kSum) return W(0);
  if (fold == Fold::kProd) return W(1);
  const bool is_max = fold == Fold::kMax;
  if (map == Map::kNonZero) return W(is_max ? 0 : 1);
  if (map == Map::kAbs && is_max) return W(0);
  if constexpr (std::is_floating_point_v<W>) {
    return is_max ? -std::numeric_limits<W>::infinity() : std::numeric_limits<W>::infinity();
  }
  if constexpr (std::is_same_v<W, std::int64_t>) return limit;
  return W(0);
}

/// Returns the value of an element that needs no center. `parameter` is the exponent of kPower or the number of
/// kDiffers.
template <Map kMap, class T, class P>
constexpr T mapped(T x, P parameter) {
  if constexpr (kMap == Map::kAbs) return x < T(0) ? -x : x;
  if constexpr (kMap == Map::kSquare) return x * x;
  if constexpr (kMap == Map::kPower && std::is_floating_point_v<T>)
    return std::pow(std::abs(x), static_cast<T>(parameter));
  if constexpr (kMap == Map::kNonZero) return x != T(0) ? T(1) : T(0);
  if constexpr (kMap == Map::kDiffers) return x != convert<T>(parameter) ? T(1) : T(0);
  return x;
}

/// Returns the result for the folded value, for a finish that needs no center.
template <class W>
constexpr W finished(Finish finish, W value, double parameter) {
  if constexpr (kIsComplex<W>) {
    if (finish == Finish::kDivide) return {value.real() / parameter, value.imag() / parameter};
  } else {
    if (finish == Finish::kAtLeastOne) return value < W(1) ? W(1) : value;
    if constexpr (std::is_floating_point_v<W>) {
      if (finish == Finish::kDivide) return value / static_cast<W>(parameter);
      if (finish == Finish::kRoot) {
        return parameter == 2 ? std::sqrt(value) : static_cast<W>(std::pow(value, 1 / parameter));
      }
    }
  }
  return value;
}

}  // namespace tessera::ops::detail
