// Reductions: of partial tensors over mesh axes, and of buffers over the ranks of a group.
#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera {

/// Operation that combines the values of several ranks. Layouts use the first five.
enum class Reduction : std::uint8_t {
  kSum,          ///< a + b
  kAvg,          ///< the sum divided by the number of ranks
  kMin,          ///< the minimum; nan if any value is nan
  kMax,          ///< the maximum; nan if any value is nan
  kProd,         ///< a * b
  kBitAnd,       ///< bitwise and, for integers and bool
  kBitOr,        ///< bitwise or, for integers and bool
  kBitXor,       ///< bitwise xor, for integers and bool
  kPremultiply,  ///< the sum of factor * value
};

/// Returns the name: "sum", "avg", "min", "max", "prod", "band", "bor", "bxor" or "premultiplied sum".
TESSERA_API std::string_view to_string(Reduction reduction);

}  // namespace tessera
