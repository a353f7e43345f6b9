// Element types that a row of a table computes with, on the host and on devices.
#pragma once

#include <cstdint>

namespace tessera::ops::detail {

/// Element types that a row computes with, and those of its mask and its result. By default, the result has the dtype
/// that the row computes with.
enum Types : std::uint8_t {
  kFloats = 1,             // f64, f32, bf16, f16: every row does
  kIntegers = 2,           // signed integers and u8, as integers
  kBools = 4,              // as the integers 0 and 1
  kComplex = 8,            // c64
  kIntegersAsFloats = 16,  // integers and bool are converted to f32 first: exp(2)
  kFirstIsMask = 32,       // the first input is a mask and does not affect the dtype
  kToBool = 64,            // the result is bool: 0 or 1
  kToReal = 128,           // the result has the real dtype of a complex dtype
  kAll = kFloats | kIntegers | kBools | kComplex,
  kFunctions = kFloats | kIntegersAsFloats,
};

}  // namespace tessera::ops::detail
