// Arithmetic of 64-bit integers in kernels: overflow wraps, and division by zero yields zero.
#pragma once

#include <cstdint>
#include <type_traits>

namespace tessera::ops::detail {

template <class T>
constexpr T wrap_add(T a, T b) {
  if constexpr (!std::is_integral_v<T>)
    return a + b;
  else
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
template <class T>
constexpr T wrap_sub(T a, T b) {
  if constexpr (!std::is_integral_v<T>)
    return a - b;
  else
    return static_cast<T>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
template <class T>
constexpr T wrap_mul(T a, T b) {
  if constexpr (!std::is_integral_v<T>)
    return a * b;
  else
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
template <class T>
constexpr T wrap_neg(T a) {
  if constexpr (!std::is_integral_v<T>)
    return -a;
  else
    return static_cast<T>(0 - static_cast<std::uint64_t>(a));
}
/// Returns the quotient rounded down; 0 if b is 0.
constexpr std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return wrap_neg(a);
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}
/// Returns the remainder with the sign of b; 0 if b is 0.
constexpr std::int64_t floor_remainder(std::int64_t a, std::int64_t b) {
  if (b == 0 || b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
/// Computes the power by repeated squaring. A negative exponent yields 0 unless the base is 1 or -1.
constexpr std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  std::int64_t power = 1;
  for (; exponent != 0; exponent >>= 1, base = wrap_mul(base, base)) {
    if ((exponent & 1) != 0) power = wrap_mul(power, base);
  }
  return power;
}

}  // namespace tessera::ops::detail
