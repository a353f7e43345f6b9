// Text as code points with the properties that tokenizers need, from utf8proc (Unicode 15.0). A byte outside of valid
// UTF-8 is a code point of its own, which has no property: expressions see it as punctuation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/train/data/detail/ticks.h"

namespace tessera::train::detail {

/// Value of a byte outside of UTF-8, for the functions that take a code point.
inline constexpr std::uint32_t kNoCodePoint = 0xFFFFFFFF;

/// One code point of a text.
struct CodePoint {
  std::uint32_t value = 0;  ///< The byte itself if is_valid is false.
  std::size_t nbytes = 0;   ///< 1 to 4
  bool is_valid = true;     ///< Shortest sequence of a code point that is not a surrogate.
};

/// Returns the code point at `position`, which must be inside the text.
CodePoint code_point_at(std::string_view text, std::size_t position);
/// Returns true if the bytes at `position` are a valid sequence that the end of the text interrupts.
bool is_interrupted(std::string_view text, std::size_t position);
/// Returns the position of the code point before `position`, which must not be 0.
std::size_t before(std::string_view text, std::size_t position);
/// Appends the code point as UTF-8.
void append_utf8(std::string& text, std::uint32_t code_point);

/// Returns the bits of a category: "L" is all letters, "Lu" upper case alone. Nothing for an unknown name.
std::optional<std::uint32_t> category_bits(std::string_view name);
/// Returns the bit of the category of a code point; 0 for kNoCodePoint.
std::uint32_t category_of(std::uint32_t code_point);
/// Returns true for the property White_Space, including line ends.
bool is_space(std::uint32_t code_point);
/// Returns true for category N.
bool is_number(std::uint32_t code_point);
/// Returns true for what \w matches: alphabetic, marks, decimal numbers, connectors, joiners.
bool is_word(std::uint32_t code_point);
/// Returns the code point without case, if that is one code point.
std::uint32_t folded(std::uint32_t code_point);
/// Appends the lower case of a code point.
void append_lower(std::string& text, std::uint32_t code_point);

/// Normalization forms.
enum class Form : std::uint8_t { kNfc, kNfd, kNfkc, kNfkd };

/// Returns the text in a normalization form. Bytes outside of UTF-8 remain.
std::string normalized(std::string_view text, Form form, const OnTick& on_tick = {});

}  // namespace tessera::train::detail
