#include "tessera/train/data/detail/bpe.h"

#include <algorithm>
#include <limits>

#include "tessera/base/error.h"

namespace tessera::train::detail {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
// Limit of cached words: longer ones rarely repeat.
constexpr std::size_t kMaxRememberedBytes = 48;
constexpr std::size_t kMaxRememberedWords = std::size_t{1} << 18;
// Positions in a word have 32 bits. Longer words are split; only text without spaces or changes of kind reaches it.
constexpr std::size_t kMaxWordBytes = std::size_t{1} << 30;

}  // namespace

void Bpe::finish() {
  by_text.clear();
  by_pair.clear();
  by_text.reserve(tokens.size());
  by_pair.reserve(merges.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (!is_added[id]) by_text.emplace(tokens[id], static_cast<std::uint32_t>(id));
  }
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto [left, right] = merges[rank];
    const std::uint32_t result = by_text.at(tokens[left] + tokens[right]);
    by_pair.emplace(pair_key(left, right), Merge{static_cast<std::uint32_t>(rank), result});
  }
}

void WordEncoder::push(std::uint32_t at) {
  const std::uint32_t next = nodes_[at].after;
  if (next == kNone) return;
  const TokenPair pair = {nodes_[at].token, nodes_[next].token};
  const auto found = bpe_.by_pair.find(pair_key(pair.first, pair.second));
  if (found != bpe_.by_pair.end()) queue_.push({found->second.rank, at, pair, found->second.result});
}

// Leaves the tokens of the word as a list that starts at nodes_[0].
void WordEncoder::merge(std::string_view word) {
  nodes_.clear();
  const auto count = static_cast<std::uint32_t>(word.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    nodes_.push_back(
        {bpe_.of_byte[static_cast<unsigned char>(word[i])], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1});
  }
  for (std::uint32_t i = 0; i + 1 < count; ++i) push(i);
  while (!queue_.empty()) {
    const MergeCandidate best = queue_.top();
    queue_.pop();
    SymbolNode& left = nodes_[best.at];
    // A neighbor may have been merged meanwhile: then the pair is outdated.
    if (left.token != best.pair.first || left.after == kNone || nodes_[left.after].token != best.pair.second) continue;
    SymbolNode& right = nodes_[left.after];
    left.token = best.result;
    left.after = right.after;
    right.token = kNone;
    if (left.after != kNone) nodes_[left.after].before = best.at;
    push(best.at);
    if (left.before != kNone) push(left.before);
  }
}

void WordEncoder::merge_long(std::string_view word, std::vector<std::uint32_t>& tokens) {
  for (std::size_t start = 0; start < word.size(); start += kMaxWordBytes) {
    merge(word.substr(start, kMaxWordBytes));
    for (std::uint32_t at = 0; at != kNone; at = nodes_[at].after) tokens.push_back(nodes_[at].token);
  }
}

void WordEncoder::encode(std::string_view word, std::vector<std::uint32_t>& tokens) {
  if (bpe_.ignore_merges) {
    const auto whole = bpe_.by_text.find(word);
    if (whole != bpe_.by_text.end()) {
      tokens.push_back(whole->second);
      return;
    }
  }
  if (word.size() > kMaxRememberedBytes) {
    merge_long(word, tokens);
    return;
  }
  auto found = seen_.find(std::string(word));
  if (found == seen_.end()) {
    if (seen_.size() >= kMaxRememberedWords) seen_.clear();
    std::vector<std::uint32_t> made;
    merge_long(word, made);
    found = seen_.emplace(word, std::move(made)).first;
  }
  tokens.insert(tokens.end(), found->second.begin(), found->second.end());
}

}  // namespace tessera::train::detail
