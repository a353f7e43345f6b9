// Regular expressions of tokenizer.json files, which split text into words: a matcher that backtracks on a stack of its
// own, so that no text overflows the stack of the thread.
//
//   a|b  (...)  (?:...)  (?i:...)  (?=...)  (?!...)  .  [a-z\s]  [^...]  \p{L}  \P{Lu}  \p{^N}  \s \S \d \D \w \W
//   \r \n \t \f \v  ? * + {2} {1,3} {2,}  ?+ *+ ++ (of one character)
//
// Other constructs are rejected by name: lazy quantifiers, anchors, back references, named groups, scripts, nested
// classes. Meanings are those of Oniguruma, which Hugging Face's library uses. Case is ignored for characters whose
// folded form is one code point.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/train/data/detail/unicode.h"

namespace tessera::train::detail {

/// A set of code points.
class CharSet {
 public:
  enum class Kind : std::uint8_t { kRange, kCategory, kSpace, kWord };
  /// Part of a set.
  struct Part {
    Kind kind = Kind::kRange;
    bool is_negated = false;
    std::uint32_t first = 0;  ///< First code point, or the bits of the categories.
    std::uint32_t last = 0;   ///< Last code point.
  };

  /// Builds the set of all code points in any part, or in none if `is_negated`.
  CharSet(std::vector<Part> parts, bool is_negated, bool ignores_case);
  /// Returns true if the code point at `position` is in the set, and adds its length to `position`.
  bool consume(std::string_view text, std::size_t& position) const;
  /// Returns true if the set contains the ASCII character.
  [[nodiscard]] bool has_ascii(unsigned character) const { return ascii_[character]; }

 private:
  [[nodiscard]] bool contains(std::uint32_t code_point) const;
  [[nodiscard]] bool is_in_a_part(std::uint32_t code_point) const;

  std::vector<Part> parts_;
  bool is_negated_;
  bool ignores_case_;
  std::bitset<128> ascii_;
};

/// A compiled expression. Immutable.
class Regex {
 public:
  /// Memory of a match, reused by the next.
  struct Frame {
    std::uint32_t instruction;
    std::uint32_t branch;  ///< Next branch of a fork.
    std::size_t at;
    std::size_t least;  ///< First end of a run that is long enough.
  };
  using Scratch = std::vector<Frame>;

  /// Throws NotSupported with the construct that is not supported, and InvalidArgument if the pattern is malformed.
  explicit Regex(std::string_view pattern);
  /// Returns the end of the match that starts exactly at `start`, if one exists. Throws NotSupported if the pattern
  /// backtracks too often.
  std::optional<std::size_t> match(std::string_view text, std::size_t start, Scratch& scratch) const;
  /// Returns the pattern.
  [[nodiscard]] const std::string& pattern() const { return pattern_; }

  enum class Op : std::uint8_t { kRun, kFork, kJump, kAhead, kDone };
  /// One step of the program.
  struct Instruction {
    Op op = Op::kDone;
    bool is_possessive = false;  ///< kRun: keeps all that it took.
    bool is_negated = false;     ///< kAhead
    std::uint32_t argument = 0;  ///< Set of a run, list of a fork, target of a jump, end of a lookahead.
    std::uint32_t min = 1;       ///< kRun
    std::uint32_t max = 1;       ///< kRun
  };
  /// Alternative of a fork, with the bytes that it can begin with.
  struct Branch {
    std::uint32_t instruction = 0;
    std::bitset<256> first;
  };
  /// A compiled pattern.
  struct Program {
    std::vector<Instruction> instructions;
    std::vector<CharSet> sets;
    std::vector<std::vector<Branch>> forks;
  };

 private:
  // Where a match stands.
  struct Place {
    std::uint32_t next;        // instruction
    std::size_t at;            // in the text
    std::uint32_t branch = 0;  // first branch of a fork to try
  };
  std::optional<std::size_t> run(Place place, std::string_view text, Scratch& scratch, std::uint64_t& steps) const;
  bool take_run(Place& place, std::string_view text, Scratch& scratch) const;
  bool take_branch(Place& place, std::string_view text, Scratch& scratch) const;
  bool back_up(Place& place, std::string_view text, std::size_t base, Scratch& scratch) const;

  std::string pattern_;
  Program program_;
};

/// Compiles a pattern; errors as Regex().
Regex::Program compile(std::string_view pattern);

}  // namespace tessera::train::detail
