#include "tessera/train/data/detail/pre_tokenize.h"

#include <algorithm>
#include <span>

namespace tessera::train::detail {
namespace {

struct Piece {
  Pattern::Range range;
  bool is_match;
};

class Splitter {
 public:
  Splitter(std::span<const SplitStep> steps, const PreTokenizer::OnWord& on_word) : steps_(steps), on_word_(on_word) {}

  void split(std::string_view text, std::size_t step, bool is_start) {
    if (text.empty()) return;
    if (step == steps_.size()) {
      on_word_(text);
      return;
    }
    const SplitStep& each = steps_[step];
    switch (each.kind) {
      case SplitStep::Kind::kPattern:
        split_at(each, text, step, is_start,
                 [&](std::string_view in, std::size_t from) { return each.pattern.find(in, from, scratch_); });
        break;
      case SplitStep::Kind::kNumbers: split_at(each, text, step, is_start, numbers); break;
      case SplitStep::Kind::kMetaspace: split_metaspace(each, text, step, is_start); break;
      case SplitStep::Kind::kPrefix: {
        const std::string prefix = text.starts_with(' ') ? "" : " ";
        split(prefix + std::string(text), step + 1, is_start);
      }
    }
  }

 private:
  static std::optional<Pattern::Range> numbers(std::string_view text, std::size_t from) {
    for (std::size_t at = from; at < text.size();) {
      const CodePoint point = code_point_at(text, at);
      const std::size_t end = at + point.nbytes;
      if (point.is_valid && is_number(point.value)) return Pattern::Range{at, end};
      at = end;
    }
    return std::nullopt;
  }

  // `find` returns the next match at or after a position.
  template <class Find>
  void split_at(const SplitStep& each, std::string_view text, std::size_t step, bool is_start, const Find& find) {
    const auto pass = [&](std::size_t begin, std::size_t end) {
      split(text.substr(begin, end - begin), step + 1, is_start && begin == 0);
    };
    if (each.behavior == SplitBehavior::kIsolated) {
      for (std::size_t at = 0; at < text.size();) {
        const std::optional<Pattern::Range> match = find(text, at);
        const std::size_t begin = match ? match->begin : text.size();
        if (begin != at) pass(at, begin);
        if (match) pass(begin, match->end);
        at = match ? match->end : text.size();
      }
      return;
    }
    std::vector<Piece> pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::optional<Pattern::Range> match = find(text, at);
      const std::size_t begin = match ? match->begin : text.size();
      if (begin != at) pieces.push_back({{at, begin}, each.is_inverted});
      if (match) pieces.push_back({*match, !each.is_inverted});
      at = match ? match->end : text.size();
    }
    for (const auto& [begin, end] : joined(pieces, each.behavior)) pass(begin, end);
  }

  // Joins matches with their neighbors, of several adjacent matches the one next to the neighbor.
  static std::vector<Pattern::Range> joined(std::span<const Piece> pieces, SplitBehavior behavior) {
    std::vector<Pattern::Range> words;
    bool was_match = false;
    for (const auto& [range, is_match] : pieces) {
      bool joins = false;  // the word before
      switch (behavior) {
        case SplitBehavior::kIsolated: break;
        case SplitBehavior::kRemoved:
          if (is_match) continue;
          break;
        case SplitBehavior::kContiguous: joins = is_match == was_match; break;
        case SplitBehavior::kMergedWithPrevious: joins = is_match && !was_match; break;
        case SplitBehavior::kMergedWithNext: joins = !is_match && was_match; break;
      }
      was_match = is_match;
      if (joins && !words.empty()) {
        words.back().end = range.end;
      } else {
        words.push_back(range);
      }
    }
    return words;
  }

  void split_metaspace(const SplitStep& each, std::string_view text, std::size_t step, bool is_start) {
    const std::string written = Replacement{{.text = " ", .regex = {}}, each.space}.apply(text);
    const bool may_prepend =
        each.prepend == SplitStep::Prepend::kAlways || (each.prepend == SplitStep::Prepend::kFirst && is_start);
    const std::string whole = may_prepend && !written.starts_with(each.space) ? each.space + written : written;
    if (!each.splits) {
      split(whole, step + 1, is_start);
      return;
    }
    for (std::size_t at = 0; at < whole.size();) {
      const std::size_t inside =
          std::string_view(whole).substr(at).starts_with(each.space) ? at + each.space.size() : at;
      const std::size_t end = std::min(whole.find(each.space, inside), whole.size());
      split(std::string_view(whole).substr(at, end - at), step + 1, is_start && at == 0);
      at = end;
    }
  }

  std::span<const SplitStep> steps_;
  const PreTokenizer::OnWord& on_word_;
  Regex::Scratch scratch_;
};

}  // namespace

void PreTokenizer::split(std::string_view text, bool is_start, const OnWord& on_word) const {
  Splitter(steps, on_word).split(text, 0, is_start);
}

}  // namespace tessera::train::detail
