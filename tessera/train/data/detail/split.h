// Splits text into words, before any merge: scanners for the regular expressions of tokenizer.json files. Every byte of
// a text belongs to exactly one word, so that the concatenated words are the text.
//
//   kGpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   kLlama3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|...
//   kQwen2   as kLlama3, with \p{N} one at a time
//
// Differences from the expressions: categories are those of Unicode 14.0; (?i:) compares only ASCII letters (the long
// s, U+017F, is not an s); a byte outside of UTF-8, which others never see, counts as punctuation.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::train::detail {

/// Selects an expression.
enum class SplitRule { kGpt2, kLlama3, kQwen2 };

/// Returns the end of the word that starts at `start`, which must be inside the text.
std::size_t word_end(std::string_view text, std::size_t start, SplitRule rule);
/// Returns the expression as files hold it.
std::string_view pattern_of(SplitRule rule);
/// Returns the rule with exactly this expression.
std::optional<SplitRule> rule_of(std::string_view pattern);

}  // namespace tessera::train::detail
