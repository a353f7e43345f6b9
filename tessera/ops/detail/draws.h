// Many random numbers at once, by vectors. What is drawn for an element is what philox.h says of its index.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"

namespace tessera::ops::detail {

/// Which numbers: one a call of a random operator.
struct DrawKey {
  std::uint64_t seed = 0;  ///< of the generator
  std::uint64_t call = 0;  ///< number of the call
};

/// The words of elements [first, first + n).
TESSERA_API void draw_words(std::uint32_t* to, DrawKey key, std::uint64_t first, std::int64_t n);
/// Uniform numbers of [0, 1) of elements [first, first + n).
TESSERA_API void draw_uniform(float* to, DrawKey key, std::uint64_t first, std::int64_t n);
/// Standard normal numbers of elements [first, first + n).
TESSERA_API void draw_normal(float* to, DrawKey key, std::uint64_t first, std::int64_t n);

}  // namespace tessera::ops::detail
