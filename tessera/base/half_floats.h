// Converts arrays of half-precision numbers to and from float, with the same bits as single conversions
// (small_floats.h). Internal to the library: uses the widest vectors of the processor. Arrays need no alignment and
// must not overlap; `n` may be 0. Thread-safe.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/base/small_floats.h"

namespace tessera::detail {

/// Widens `n` values exactly.
TESSERA_API void widen(float* to, const bf16* from, std::int64_t n);
/// Widens `n` values exactly.
TESSERA_API void widen(float* to, const f16* from, std::int64_t n);
/// Rounds `n` values to nearest, ties to even.
TESSERA_API void narrow(bf16* to, const float* from, std::int64_t n);
/// Rounds `n` values to nearest, ties to even.
TESSERA_API void narrow(f16* to, const float* from, std::int64_t n);

}  // namespace tessera::detail
