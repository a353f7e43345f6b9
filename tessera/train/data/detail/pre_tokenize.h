// Splits text into words, before any merge, in the steps of the pre-tokenizer of a tokenizer.json. Each step divides
// the pieces of the step before. Unless a step removes or adds characters, the words put together are the text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/train/data/detail/text_steps.h"

namespace tessera::train::detail {

/// The expression of GPT-2, which a step "ByteLevel" applies.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Treatment of the matches of a split, and of the text between them.
enum class SplitBehavior : std::uint8_t { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// One step. A step whose behavior is kIsolated yields each match and each text between matches.
struct SplitStep {
  enum class Kind : std::uint8_t {
    kPattern,    ///< Splits at the matches of a pattern.
    kNumbers,    ///< Splits at characters of category N.
    kMetaspace,  ///< Writes spaces as `space`, and begins a word at each.
    kPrefix,     ///< Writes a space before text that does not begin with one.
  };
  enum class Prepend : std::uint8_t { kAlways, kFirst, kNever };
  Kind kind = Kind::kPattern;
  Pattern pattern = {};
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool is_inverted = false;            ///< kPattern: the text between matches is what is looked for.
  std::string space = {};              ///< kMetaspace: the character for a space.
  Prepend prepend = Prepend::kAlways;  ///< kMetaspace: whether text begins with `space` in any case.
  bool splits = true;                  ///< kMetaspace: whether words begin at `space`.
};

/// All steps, in their order. Without a step, the text is one word.
struct PreTokenizer {
  std::vector<SplitStep> steps;

  /// Receives a nonempty word.
  using OnWord = std::function<void(std::string_view)>;
  /// Calls `on_word` for each word of `text`. `is_start`: the text begins where the text of the user does.
  void split(std::string_view text, bool is_start, const OnWord& on_word) const;
};

}  // namespace tessera::train::detail
