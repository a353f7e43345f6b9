// The steps of a tokenizer.json that change text: normalizers before words are split, and replacements, which decoders
// use too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/train/data/detail/regex.h"
#include "tessera/train/data/detail/ticks.h"

namespace tessera::train::detail {

/// The pattern that a step finds: an expression, or a text.
struct Pattern {
  std::string text;            ///< Not empty, if there is no expression.
  std::optional<Regex> regex;  ///< Has priority.

  /// A part of a text.
  struct Range {
    std::size_t begin;
    std::size_t end;
  };
  /// Returns the first match that begins at or after `from` and is not empty.
  [[nodiscard]] std::optional<Range> find(std::string_view in, std::size_t from, Regex::Scratch& scratch) const;
};

/// Replaces every match of a pattern.
struct Replacement {
  Pattern pattern;
  std::string content;

  /// Returns the changed text.
  [[nodiscard]] std::string apply(std::string_view text, const OnTick& on_tick = {}) const;
};

/// One step of a normalizer.
struct NormalizerStep {
  enum class Kind : std::uint8_t { kForm, kLowercase, kPrepend, kReplace };
  Kind kind = Kind::kForm;
  Form form = Form::kNfc;
  Replacement replacement = {};  ///< Its content is what kPrepend adds.
};

/// All steps, in their order.
struct Normalizer {
  std::vector<NormalizerStep> steps;

  /// Returns the changed text.
  [[nodiscard]] std::string apply(std::string_view text, const OnTick& on_tick = {}) const;
};

}  // namespace tessera::train::detail
