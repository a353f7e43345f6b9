// Text as code points, classified for word splitting: letter, number or white space. A byte outside of valid UTF-8 is a
// code point of its own with kind kOther.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::train::detail {

/// Class of a code point.
enum class Kind : std::uint8_t {
  kLetter,  ///< Category L.
  kNumber,  ///< Category N.
  kSpace,   ///< Property White_Space, including line ends.
  kOther,   ///< Everything else, including bytes outside of UTF-8.
};

/// One code point of a text.
struct CodePoint {
  std::uint32_t value = 0;  ///< The byte itself if is_valid is false.
  std::size_t nbytes = 0;   ///< 1 to 4
  bool is_valid = true;     ///< Shortest sequence of a code point that is not a surrogate.
};

/// Returns the code point at `position`, which must be inside the text.
CodePoint code_point_at(std::string_view text, std::size_t position);
/// Returns the class of a valid code point.
Kind kind_of(std::uint32_t code_point);
/// Appends the code point as UTF-8.
void append_utf8(std::string& text, std::uint32_t code_point);

}  // namespace tessera::train::detail
