// Text into words, before any merge: what the regular expressions in tokenizer.json files do, as scanners. Every byte
// of a text belongs to exactly one word, so that words put together are the text.
//
//   kGpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   kLlama3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|...
//   kQwen2   likewise, with \p{N} one at a time
//
// Where they differ from the expressions: categories are those of Unicode 14.0; (?i:) compares ASCII letters alone (the
// long s, U+017F, is no s); a byte outside of UTF-8, which others never see, is like punctuation.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::train::detail {

/// Which expression.
enum class SplitRule { kGpt2, kLlama3, kQwen2 };

/// The end of the word that starts at `start`, which must lie inside the text.
std::size_t word_end(std::string_view text, std::size_t start, SplitRule rule);
/// The expression as files hold it.
std::string_view pattern_of(SplitRule rule);
/// The rule with exactly this expression.
std::optional<SplitRule> rule_of(std::string_view pattern);

}  // namespace tessera::train::detail
