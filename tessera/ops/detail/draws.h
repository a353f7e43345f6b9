// Vectorized generation of many random numbers. philox.h defines the number of each element.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"

namespace tessera::ops::detail {

/// Key of the numbers of one call of a random operator.
struct DrawKey {
  std::uint64_t seed = 0;  ///< seed of the generator
  std::uint64_t call = 0;  ///< number of the call
};

/// Writes the random words of elements [first, first + n).
TESSERA_API void draw_words(std::uint32_t* to, DrawKey key, std::uint64_t first, std::int64_t n);
/// Writes uniform numbers in [0, 1) for elements [first, first + n).
TESSERA_API void draw_uniform(float* to, DrawKey key, std::uint64_t first, std::int64_t n);
/// Writes standard normal numbers for elements [first, first + n).
TESSERA_API void draw_normal(float* to, DrawKey key, std::uint64_t first, std::int64_t n);

}  // namespace tessera::ops::detail
