// Integer arithmetic that throws on overflow instead of wrapping around.
#pragma once

#include <concepts>

#include "tessera/base/error.h"

namespace tessera {

/// Returns a + b. Throws InvalidArgument, which names `what`, on overflow.
template <std::integral T>
constexpr T checked_add(T a, T b, const char* what = "sum") {
  T result{};
  if (__builtin_add_overflow(a, b, &result)) [[unlikely]] {
    TESSERA_THROW(InvalidArgument, what, ": ", a, " + ", b, " does not fit ", sizeof(T) * 8, " bits");
  }
  return result;
}

/// Returns a * b. Throws InvalidArgument, which names `what`, on overflow.
template <std::integral T>
constexpr T checked_mul(T a, T b, const char* what = "product") {
  T result{};
  if (__builtin_mul_overflow(a, b, &result)) [[unlikely]] {
    TESSERA_THROW(InvalidArgument, what, ": ", a, " * ", b, " does not fit ", sizeof(T) * 8, " bits");
  }
  return result;
}

}  // namespace tessera
