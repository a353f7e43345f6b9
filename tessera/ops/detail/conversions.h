// Conversion of one element to another type. The rules are the same on the host and in kernels on devices:
//
// Floating to integer rounds towards zero, saturates, and converts nan to 0. Integer to narrower integer keeps the low
// bits. Conversions to bool yield "not zero". Complex to real yields the real part. Floating to narrower floating
// rounds once, to nearest, ties to even.
#pragma once

#include <limits>
#include <type_traits>

#include "tessera/base/small_floats.h"

namespace tessera::ops::detail {

/// True if T is a complex number: std::complex or its counterpart on a device.
template <class T>
inline constexpr bool kIsComplex = requires {
  typename T::value_type;
};

/// Returns `value` converted to another type.
template <class To, class From>
constexpr To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (kIsComplex<From> && kIsComplex<To>) {
    using Part = typename To::value_type;
    return {static_cast<Part>(value.real()), static_cast<Part>(value.imag())};
  } else if constexpr (kIsComplex<From>) {
    if constexpr (std::is_same_v<To, bool>) return value.real() != 0 || value.imag() != 0;
    return convert<To>(value.real());
  } else if constexpr (kIsComplex<To>) {
    return {convert<typename To::value_type>(value), 0};
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
    using Wide = std::conditional_t<std::is_same_v<From, double>, double, float>;
    const Wide wide = value;
    // The minimum, and the first value above the maximum, are powers of two (or 0), which both types hold.
    constexpr Wide kMin = static_cast<Wide>(std::numeric_limits<To>::min());
    constexpr To kHalf = std::numeric_limits<To>::max() / 2 + 1;
    constexpr Wide kEnd = static_cast<Wide>(kHalf) * 2;
    if (!(wide >= kMin)) return wide < kMin ? std::numeric_limits<To>::min() : To{0};
    return wide >= kEnd ? std::numeric_limits<To>::max() : static_cast<To>(wide);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace tessera::ops::detail
