// A number in code: `x + 1`, `clamp(x, 0, 1)`. It has a kind (bool, integer, floating, complex) but no width. It takes
// the dtype of the tensor operand, unless its own kind is higher.
#pragma once

#include <complex>
#include <concepts>
#include <cstdint>
#include <string>

#include "tessera/base/export.h"

namespace tessera::tensor {

/// A number of one of four kinds. A value type.
class TESSERA_API Scalar {
 public:
  /// The kinds, lowest first.
  enum class Kind : std::uint8_t { kBool, kInteger, kFloating, kComplex };

  /// Constructs the integer 0.
  Scalar() = default;
  /// Constructs a boolean.
  Scalar(bool value) : kind_(Kind::kBool), integer_(value ? 1 : 0) {}  // NOLINT(google-explicit-constructor)
  /// Constructs an integer.
  template <std::integral T>
  requires(!std::same_as<T, bool>) Scalar(T value)  // NOLINT(google-explicit-constructor)
      : integer_(static_cast<std::int64_t>(value)) {}
  /// Constructs a floating-point number.
  template <std::floating_point T>
  Scalar(T value) : kind_(Kind::kFloating), real_(value) {}  // NOLINT(google-explicit-constructor)
  /// Constructs a complex number.
  Scalar(std::complex<double> value)  // NOLINT(google-explicit-constructor)
      : kind_(Kind::kComplex), real_(value.real()), imag_(value.imag()) {}

  /// Returns the kind.
  [[nodiscard]] Kind kind() const { return kind_; }
  /// Returns the value as a floating-point number; for a complex number, the real part.
  [[nodiscard]] double as_double() const { return is_whole() ? static_cast<double>(integer_) : real_; }
  /// Returns the value as an integer; floating-point values are truncated toward zero.
  [[nodiscard]] std::int64_t as_int64() const { return is_whole() ? integer_ : static_cast<std::int64_t>(real_); }
  /// Returns true if the value is not zero.
  [[nodiscard]] bool as_bool() const { return is_whole() ? integer_ != 0 : real_ != 0 || imag_ != 0; }
  /// Returns the value as a complex number.
  [[nodiscard]] std::complex<double> as_complex() const { return {as_double(), imag_}; }
  /// Returns the value as a T, converted as by static_cast.
  template <class T>
  [[nodiscard]] T to() const {
    if constexpr (std::same_as<T, bool>) {
      return as_bool();
    } else if constexpr (std::integral<T>) {
      return static_cast<T>(as_int64());
    } else if constexpr (std::floating_point<T>) {
      return static_cast<T>(as_double());
    } else {
      return T(as_complex());
    }
  }
  /// Returns true if kind and value are equal.
  friend bool operator==(const Scalar&, const Scalar&) = default;

 private:
  [[nodiscard]] bool is_whole() const { return kind_ <= Kind::kInteger; }

  Kind kind_ = Kind::kInteger;
  std::int64_t integer_ = 0;
  double real_ = 0;
  double imag_ = 0;
};

/// Returns "2", "0.5", "true" or "1+2i".
TESSERA_API std::string to_string(const Scalar& scalar);

}  // namespace tessera::tensor
