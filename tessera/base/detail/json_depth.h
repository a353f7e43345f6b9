// How deep a JSON text is nested, asked before anything is made of it: a parser gets along with any depth, but what
// walks over its result (printing, copying, comparing) calls itself once a level, and a text of anybody ends the stack.
#pragma once

#include <cstddef>
#include <string_view>

namespace tessera::detail {

/// The most lists and objects that lie in each other: 0 for `7`, 2 for `{"a": [1]}`. One pass, without memory. Of a
/// text that is no JSON: at least what a parser has read when it finds out.
std::size_t json_depth(std::string_view text) noexcept;

}  // namespace tessera::detail
