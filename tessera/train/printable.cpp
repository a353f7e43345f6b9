// printable(): model output for a terminal. A byte model early in training generates invalid text.
#include <cstddef>

#include "tessera/train/run.h"

namespace tessera::train {
namespace {

// Returns the length of the UTF-8 character at the start of `text`; 0 if it is invalid.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  if (byte(0) < 0x80) return 1;
  const std::size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
  for (std::size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xc0) != 0x80) return 0;
  }
  // Overlong, half of a surrogate pair, or beyond the last character.
  const bool is_bad_second = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) >= 0xa0) ||
                             (byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) >= 0x90);
  const bool is_control = byte(0) == 0xc2 && byte(1) < 0xa0;
  return is_bad_second || is_control ? 0 : length;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    const bool is_control = length == 1 && (first < 0x20 || first == 0x7f) && first != '\n' && first != '\t';
    if (length == 0 || is_control) {
      out += "\xef\xbf\xbd";
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace tessera::train
