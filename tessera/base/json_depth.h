// Nesting depth of a JSON text, computed before parsing. The parser handles any depth, but code that walks its result
// (printing, copying, comparing) recurses once per level, and untrusted text could overflow the stack. Internal to the
// library: readers of JSON files reject a text before they parse it.
#pragma once

#include <cstddef>
#include <string_view>

namespace tessera::detail {

/// Returns the maximum number of nested lists and objects: 0 for `7`, 2 for `{"a": [1]}`. One pass, no allocation. For
/// malformed JSON, the result is at least the depth that a parser reaches before it detects the error.
std::size_t json_depth(std::string_view text) noexcept;

}  // namespace tessera::detail
