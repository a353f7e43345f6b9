// Element types. A DType defines the format of an element; dtype_of<T>() is the DType of a C++ type.
//
//   dtype_of<float>() == DType::kF32        to_string(DType::kBF16) == "bf16"        parse_dtype("f8e4m3")
//
// Names are the same in C++, on the command line and in files: f64, i32, c64 (two f32), bool.
#pragma once

#include <array>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "tessera/base/export.h"
#include "tessera/base/small_floats.h"

namespace tessera {

/// Type of the elements of a tensor. The values are part of file formats: add new ones at the end.
enum class DType : std::uint8_t {
  kF64,     ///< double
  kF32,     ///< float
  kF16,     ///< tessera::f16
  kBF16,    ///< tessera::bf16
  kF8E4M3,  ///< tessera::f8e4m3
  kF8E5M2,  ///< tessera::f8e5m2
  kI64,     ///< std::int64_t
  kI32,     ///< std::int32_t
  kI16,     ///< std::int16_t
  kI8,      ///< std::int8_t
  kU64,     ///< std::uint64_t
  kU32,     ///< std::uint32_t
  kU16,     ///< std::uint16_t
  kU8,      ///< std::uint8_t
  kBool,    ///< bool, one byte, 0 or 1
  kC64,     ///< std::complex<float>
  kC128,    ///< std::complex<double>
};

/// All dtypes, in the order of the enumeration.
inline constexpr std::array kAllDTypes = {DType::kF64,    DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3,
                                          DType::kF8E5M2, DType::kI64, DType::kI32, DType::kI16,  DType::kI8,
                                          DType::kU64,    DType::kU32, DType::kU16, DType::kU8,   DType::kBool,
                                          DType::kC64,    DType::kC128};

/// Returns "f32", "bf16", "f8e4m3", "bool", ...
TESSERA_API std::string_view to_string(DType dtype);
/// Returns the dtype with this name. Throws InvalidArgument, which lists the names, if the name is unknown.
TESSERA_API DType parse_dtype(std::string_view name);

/// Returns the bytes of one element.
constexpr std::size_t itemsize(DType dtype) {
  switch (dtype) {
    case DType::kC128: return 16;
    case DType::kF64:
    case DType::kI64:
    case DType::kU64:
    case DType::kC64: return 8;
    case DType::kF32:
    case DType::kI32:
    case DType::kU32: return 4;
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
    case DType::kU16: return 2;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kI8:
    case DType::kU8:
    case DType::kBool: return 1;
  }
  return 0;
}

/// Returns true for real floating-point types; complex types are excluded.
constexpr bool is_floating(DType dtype) { return dtype <= DType::kF8E5M2; }
/// Returns true for complex types.
constexpr bool is_complex(DType dtype) { return dtype == DType::kC64 || dtype == DType::kC128; }
/// Returns true for integer types; bool is excluded.
constexpr bool is_integral(DType dtype) { return dtype >= DType::kI64 && dtype <= DType::kU8; }
/// Returns true if elements can be negative: floating, complex and signed integer types.
constexpr bool is_signed(DType dtype) { return is_floating(dtype) || is_complex(dtype) || dtype <= DType::kI8; }
/// Returns the component dtype of a complex dtype; any other dtype unchanged.
constexpr DType real_of(DType dtype) {
  return dtype == DType::kC64 ? DType::kF32 : dtype == DType::kC128 ? DType::kF64 : dtype;
}

namespace detail {

template <class T, class... Among>
inline constexpr bool kIsAnyOf = (std::same_as<T, Among> || ...);

// Characters are text, not numbers: the signedness of char depends on the platform.
template <class T>
concept PlainInteger =
    std::integral<T> && !kIsAnyOf<T, bool, char, wchar_t, char8_t, char16_t, char32_t> && sizeof(T) <= 8;

template <class T>
concept Element = PlainInteger<T> ||
    kIsAnyOf<T, double, float, f16, bf16, f8e4m3, f8e5m2, bool, std::complex<float>, std::complex<double>>;

constexpr DType integer_dtype(std::size_t size, bool is_signed_type) {
  switch (size) {
    case 1: return is_signed_type ? DType::kI8 : DType::kU8;
    case 2: return is_signed_type ? DType::kI16 : DType::kU16;
    case 4: return is_signed_type ? DType::kI32 : DType::kU32;
    default: return is_signed_type ? DType::kI64 : DType::kU64;
  }
}

}  // namespace detail

/// Returns the dtype of elements of type T. Does not compile for other types, such as plain char.
template <detail::Element T>
constexpr DType dtype_of() {
  if constexpr (std::same_as<T, double>) return DType::kF64;
  if constexpr (std::same_as<T, float>) return DType::kF32;
  if constexpr (std::same_as<T, f16>) return DType::kF16;
  if constexpr (std::same_as<T, bf16>) return DType::kBF16;
  if constexpr (std::same_as<T, f8e4m3>) return DType::kF8E4M3;
  if constexpr (std::same_as<T, f8e5m2>) return DType::kF8E5M2;
  if constexpr (std::same_as<T, bool>) return DType::kBool;
  if constexpr (std::same_as<T, std::complex<float>>) return DType::kC64;
  if constexpr (std::same_as<T, std::complex<double>>) return DType::kC128;
  if constexpr (detail::PlainInteger<T>) return detail::integer_dtype(sizeof(T), std::is_signed_v<T>);
}

}  // namespace tessera
