#include "tessera/base/json_depth.h"

#include <algorithm>

namespace tessera::detail {

std::size_t json_depth(std::string_view text) noexcept {
  std::size_t deepest = 0;
  std::size_t depth = 0;
  bool is_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (is_string) {
      if (letter == '\\') ++at;  // an escaped quote does not end the string
      is_string = letter != '"';
    } else if (letter == '"') {
      is_string = true;
    } else if (letter == '{' || letter == '[') {
      deepest = std::max(deepest, ++depth);
    } else if ((letter == '}' || letter == ']') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace tessera::detail
