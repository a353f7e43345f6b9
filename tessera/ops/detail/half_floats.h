// Dense half-precision numbers to and from float, many at once; the same bits as one at a time (small_floats.h).
#pragma once

#include <cstdint>

#include "tessera/base/small_floats.h"

namespace tessera::ops::detail {

/// Exact.
void widen(float* to, const bf16* from, std::int64_t n);
/// Exact.
void widen(float* to, const f16* from, std::int64_t n);
/// Rounds to nearest, ties to even.
void narrow(bf16* to, const float* from, std::int64_t n);
/// Rounds to nearest, ties to even.
void narrow(f16* to, const float* from, std::int64_t n);

}  // namespace tessera::ops::detail
