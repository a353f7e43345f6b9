// The code points of category L and of category N, as ascending ranges (Unicode 14.0). Code points of later versions
// belong to neither.
#pragma once

#include <cstdint>
#include <span>

namespace tessera::train::detail {

/// First and last code point of a range.
struct CodeRange {
  std::uint32_t first;
  std::uint32_t last;
};

/// Category L: Lu, Ll, Lt, Lm, Lo.
std::span<const CodeRange> letter_ranges();
/// Category N: Nd, Nl, No.
std::span<const CodeRange> number_ranges();

}  // namespace tessera::train::detail
