#include "tessera/train/data/detail/bpe_learn.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "tessera/base/error.h"
#include "tessera/train/data/detail/pre_tokenize.h"

namespace tessera::train::detail {
namespace {

constexpr std::int64_t kMinVocabulary = 257;
constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 24;

struct Word {
  std::vector<std::uint32_t> tokens;
  std::uint64_t count = 0;
};

// Frequency of a pair in all words, and the words in which it has occurred (it may be gone since).
struct PairUse {
  std::uint64_t count = 0;
  std::vector<std::uint32_t> words;
};

struct MergeCandidate {
  std::uint64_t count;
  std::uint64_t pair;
  bool operator<(const MergeCandidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Learner {
 public:
  explicit Learner(std::span<const std::string_view> texts) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      bpe_.of_byte[byte] = byte;
      add_token(std::string(1, static_cast<char>(byte)), false);
    }
    bpe_.end_of_text = add_token("<|endoftext|>", true);
    count_words(texts);
    for (std::uint32_t i = 0; i < words_.size(); ++i) count_pairs(i, 0);
    for (const auto& [pair, use] : pairs_) queue_.push({use.count, pair});
  }

  Bpe learn(std::size_t vocabulary, const OnProgress& on_progress) {
    while (bpe_.tokens.size() < vocabulary) {
      TESSERA_CHECK(!queue_.empty(), "a vocabulary of ", vocabulary, " tokens cannot be learned: the texts give only ",
                    bpe_.tokens.size(), "; use fewer tokens, or more text");
      const MergeCandidate best = queue_.top();
      queue_.pop();
      const std::uint64_t now = pairs_.at(best.pair).count;
      if (now == best.count) {
        merge(best.pair);
        if (on_progress) on_progress(bpe_.tokens.size(), vocabulary);
      } else if (now != 0) {
        queue_.push({now, best.pair});
      }
    }
    return std::move(bpe_);
  }

 private:
  std::uint32_t add_token(std::string bytes, bool is_added) {
    const auto id = static_cast<std::uint32_t>(bpe_.tokens.size());
    bpe_.tokens.push_back(std::move(bytes));
    bpe_.is_added.push_back(is_added);
    return id;
  }

  void count_words(std::span<const std::string_view> texts) {
    std::unordered_map<std::string_view, std::uint64_t> counts;
    PreTokenizer words;
    words.steps.push_back({.pattern = {.text = {}, .regex = Regex(kGpt2Pattern)}});
    for (const std::string_view text : texts) {
      words.split(text, true, [&](std::string_view word) { ++counts[word]; });
    }
    TESSERA_CHECK(counts.size() < (std::uint64_t{1} << 32), "learn: must have less than 2^32 different words, got ",
                  counts.size());
    for (const auto& [text, count] : counts) {
      if (text.size() < 2) continue;
      Word& word = words_.emplace_back();
      word.count = count;
      for (const char c : text) word.tokens.push_back(static_cast<unsigned char>(c));
    }
  }

  // Adds the pairs of a word. Pairs that contain `fresh` are new in this word: they are recorded, and queued by
  // merge(). 0, a byte, is never fresh: then all pairs are recorded.
  void count_pairs(std::uint32_t word, std::uint32_t fresh) {
    const Word& each = words_[word];
    for (std::size_t i = 0; i + 1 < each.tokens.size(); ++i) {
      const std::uint64_t key = pair_key(each.tokens[i], each.tokens[i + 1]);
      PairUse& use = pairs_[key];
      use.count += each.count;
      if (fresh != 0 && each.tokens[i] != fresh && each.tokens[i + 1] != fresh) continue;
      if (use.words.empty() || use.words.back() != word) use.words.push_back(word);
      if (fresh != 0) touched_.push_back(key);
    }
  }

  void merge(std::uint64_t pair) {
    const auto left = static_cast<std::uint32_t>(pair >> 32);
    const auto right = static_cast<std::uint32_t>(pair);
    // Bytes have one way to a token: merges between two boundaries that no merge has crossed do not depend on the text
    // outside. So the result is new, and no merged pair occurs again.
    const std::uint32_t result = add_token(bpe_.tokens[left] + bpe_.tokens[right], false);
    bpe_.merges.emplace_back(left, right);
    std::vector<std::uint32_t> words = std::move(pairs_.at(pair).words);
    std::ranges::sort(words);
    words.erase(std::unique(words.begin(), words.end()), words.end());
    touched_.clear();
    for (const std::uint32_t word : words) merge_in(word, left, right, result);
    std::ranges::sort(touched_);
    touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
    for (const std::uint64_t key : touched_) queue_.push({pairs_.at(key).count, key});
  }

  void merge_in(std::uint32_t word, std::uint32_t left, std::uint32_t right, std::uint32_t result) {
    std::vector<std::uint32_t>& tokens = words_[word].tokens;
    const auto is_pair = [&](std::size_t i) {
      return i + 1 < tokens.size() && tokens[i] == left && tokens[i + 1] == right;
    };
    std::size_t first = 0;
    while (first < tokens.size() && !is_pair(first)) ++first;
    if (first == tokens.size()) return;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      pairs_.at(pair_key(tokens[i], tokens[i + 1])).count -= words_[word].count;
    }
    std::size_t kept = first;
    for (std::size_t i = first; i < tokens.size(); ++kept) {
      const bool is_merged = is_pair(i);
      const std::uint32_t token = is_merged ? result : tokens[i];
      i += is_merged ? 2 : 1;
      tokens[kept] = token;
    }
    tokens.resize(kept);
    count_pairs(word, result);
  }

  Bpe bpe_;
  std::vector<Word> words_;
  std::unordered_map<std::uint64_t, PairUse> pairs_;
  std::priority_queue<MergeCandidate> queue_;
  std::vector<std::uint64_t> touched_;
};

}  // namespace

Bpe learn_bpe(std::span<const std::string_view> texts, std::int64_t vocabulary, const OnProgress& on_progress) {
  TESSERA_CHECK(vocabulary >= kMinVocabulary && vocabulary <= kMaxVocabulary, "learn: vocabulary must be in [",
                kMinVocabulary, ", ", kMaxVocabulary, "], got ", vocabulary,
                "; the smallest has the bytes and <|endoftext|>");
  return Learner(texts).learn(static_cast<std::size_t>(vocabulary), on_progress);
}

}  // namespace tessera::train::detail
