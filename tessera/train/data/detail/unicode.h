// Text as code points, and of these what splitting into words asks for: whether one is a letter, a number or white
// space. A byte that belongs to no valid UTF-8 sequence stands for itself and is none of the three.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::train::detail {

/// What a code point is.
enum class Kind : std::uint8_t {
  kLetter,  ///< category L
  kNumber,  ///< category N
  kSpace,   ///< property White_Space, line ends among it
  kOther,   ///< everything else, bytes outside of UTF-8 too
};

/// One code point of a text.
struct CodePoint {
  std::uint32_t value = 0;  ///< the byte itself where is_valid is false
  std::size_t nbytes = 0;   ///< 1 to 4
  bool is_valid = true;     ///< a shortest sequence of a code point that is no surrogate
};

/// The code point at `position`, which must lie inside the text.
CodePoint code_point_at(std::string_view text, std::size_t position);
/// Of a valid code point.
Kind kind_of(std::uint32_t code_point);
/// The code point as UTF-8, added to the end.
void append_utf8(std::string& text, std::uint32_t code_point);

}  // namespace tessera::train::detail
