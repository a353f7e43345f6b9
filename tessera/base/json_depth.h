// How deep a JSON text is nested, found without making anything of it: parsers and what they make follow the nesting
// with the stack of the thread, which a file of nothing but brackets would use up.
#pragma once

#include <cstddef>
#include <string_view>

namespace tessera {

/// Whether arrays and objects of the text stand in each other deeper than `most`. What is no JSON may be either.
inline bool is_json_deeper(std::string_view text, std::size_t most) {
  std::size_t depth = 0;
  bool is_text = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (is_text) {
      if (letter == '\\') ++at;
      is_text = letter != '"';
    } else if (letter == '"') {
      is_text = true;
    } else if (letter == '[' || letter == '{') {
      if (++depth > most) return true;
    } else if ((letter == ']' || letter == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace tessera
