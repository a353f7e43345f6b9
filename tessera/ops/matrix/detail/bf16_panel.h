// Panels of f32 from bf16 operands, for processors on which an f32 product is faster than one of bf16.
//
// A panel is stored k by k: that is the order in which the library reads an operand fastest. Widening an operand whose
// rows are contiguous along k therefore transposes it too, which the library would otherwise do, and slower.
//
//   memory, rows along k:  r0k0 r0k1 ... | r1k0 r1k1 ...       panel:  r0k0 r1k0 ... pad | r0k1 r1k1 ... pad
#pragma once

#include <cstdint>

#include "tessera/base/small_floats.h"

namespace tessera::ops::detail {

/// Elements of a bf16 operand: row i, position x along k at data[i * row + x * depth].
struct Bf16Lines {
  const bf16* data = nullptr;
  std::int64_t row = 0;
  std::int64_t depth = 0;
};

/// Returns the floats between two positions along k of a panel of `rows` rows. Lines start on different cache sets.
std::int64_t panel_stride(std::int64_t rows);
/// Writes `rows` rows by `depth` positions along k: to[x * panel_stride(rows) + i]. One of the steps of `from` must
/// be 1.
void widen_panel(float* to, const Bf16Lines& from, std::int64_t rows, std::int64_t depth);

}  // namespace tessera::ops::detail
