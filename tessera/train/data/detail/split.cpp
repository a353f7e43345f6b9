#include "tessera/train/data/detail/split.h"

#include "tessera/train/data/detail/unicode.h"

namespace tessera::train::detail {
namespace {

constexpr SplitRule kRules[] = {SplitRule::kGpt2, SplitRule::kLlama3, SplitRule::kQwen2};

// Iterates over the code points of a text.
struct Scanner {
  std::string_view text;

  [[nodiscard]] bool is_end(std::size_t at) const { return at >= text.size(); }
  [[nodiscard]] Kind kind(std::size_t at) const {
    const CodePoint point = code_point_at(text, at);
    return point.is_valid ? kind_of(point.value) : Kind::kOther;
  }
  [[nodiscard]] std::size_t after(std::size_t at) const { return at + code_point_at(text, at).nbytes; }
  [[nodiscard]] bool is_line_end(std::size_t at) const { return text[at] == '\n' || text[at] == '\r'; }
  // Returns the end of the run of this kind, of at most so many code points.
  [[nodiscard]] std::size_t run_end(std::size_t at, Kind kind_of_run, std::size_t most = std::string_view::npos) const {
    while (most-- > 0 && !is_end(at) && kind(at) == kind_of_run) at = after(at);
    return at;
  }
};

// Returns the end of 's, 't, 're, 've, 'm, 'll or 'd; `at` if the text has no such suffix.
std::size_t contraction_end(std::string_view text, std::size_t at, bool any_case) {
  if (text[at] != '\'') return at;
  for (const std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"}) {
    bool is_equal = text.size() - at > ending.size();
    for (std::size_t i = 0; is_equal && i < ending.size(); ++i) {
      const char letter = text[at + 1 + i];
      is_equal = letter == ending[i] || (any_case && letter == ending[i] - 'a' + 'A');
    }
    if (is_equal) return at + 1 + ending.size();
  }
  return at;
}

// White space: all of it at the end of the text; before a word all but the last, which belongs to the word; a single
// one is a word.
std::size_t space_end(const Scanner& scan, std::size_t start) {
  std::size_t last = start;
  std::size_t at = start;
  while (!scan.is_end(at) && scan.kind(at) == Kind::kSpace) {
    last = at;
    at = scan.after(at);
  }
  return scan.is_end(at) || last == start ? at : last;
}

std::size_t gpt2_end(const Scanner& scan, std::size_t start) {
  const std::size_t contraction = contraction_end(scan.text, start, false);
  if (contraction != start) return contraction;
  const std::size_t first = scan.text[start] == ' ' ? start + 1 : start;
  if (!scan.is_end(first)) {
    const Kind kind = scan.kind(first);
    if (kind != Kind::kSpace) return scan.run_end(first, kind);
  }
  return space_end(scan, start);
}

std::size_t llama3_end(const Scanner& scan, std::size_t start, std::size_t max_digits) {
  const std::size_t contraction = contraction_end(scan.text, start, true);
  if (contraction != start) return contraction;
  const Kind kind = scan.kind(start);
  const std::size_t second = scan.after(start);
  if (kind == Kind::kLetter) return scan.run_end(start, kind);
  if (kind == Kind::kNumber) return scan.run_end(start, kind, max_digits);
  if (!scan.is_line_end(start) && !scan.is_end(second) && scan.kind(second) == Kind::kLetter) {
    return scan.run_end(second, Kind::kLetter);
  }
  const std::size_t first = scan.text[start] == ' ' ? second : start;
  if (!scan.is_end(first) && scan.kind(first) == Kind::kOther) {
    std::size_t at = scan.run_end(first, Kind::kOther);
    while (!scan.is_end(at) && scan.is_line_end(at)) ++at;
    return at;
  }
  std::size_t after_line_end = start;
  for (std::size_t at = start; !scan.is_end(at) && scan.kind(at) == Kind::kSpace; at = scan.after(at)) {
    if (scan.is_line_end(at)) after_line_end = at + 1;
  }
  return after_line_end != start ? after_line_end : space_end(scan, start);
}

}  // namespace

std::size_t word_end(std::string_view text, std::size_t start, SplitRule rule) {
  const Scanner scan{text};
  if (rule == SplitRule::kGpt2) return gpt2_end(scan, start);
  return llama3_end(scan, start, rule == SplitRule::kLlama3 ? 3 : 1);
}

std::string_view pattern_of(SplitRule rule) {
  switch (rule) {
    case SplitRule::kGpt2: return R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
    case SplitRule::kLlama3:
      return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
             R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
    case SplitRule::kQwen2:
      return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
             R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
  }
  return {};
}

std::optional<SplitRule> rule_of(std::string_view pattern) {
  for (const SplitRule rule : kRules) {
    if (pattern_of(rule) == pattern) return rule;
  }
  return std::nullopt;
}

}  // namespace tessera::train::detail
