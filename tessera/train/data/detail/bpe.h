// Byte pair encoding: a word starts as one token per byte. As long as two neighbors can be merged, the pair of the
// lowest rank is merged, the leftmost first.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/train/data/detail/split.h"

namespace tessera::train::detail {

/// Two adjacent tokens.
using TokenPair = std::pair<std::uint32_t, std::uint32_t>;

/// Result of a merge, and its rank.
struct Merge {
  std::uint32_t rank = 0;
  std::uint32_t result = 0;
};

/// A vocabulary with its merges. Immutable after finish().
struct Bpe {
  Bpe() = default;
  Bpe(Bpe&&) = default;  // by_text refers to tokens, which keep their addresses when a list moves
  Bpe& operator=(Bpe&&) = default;

  std::vector<std::string> tokens;              ///< Bytes of each token.
  std::vector<bool> is_added;                   ///< Tokens that represent no text: encoding never returns them.
  std::array<std::uint32_t, 256> of_byte = {};  ///< Token of each byte.
  std::vector<TokenPair> merges;                ///< Merges by rank.
  SplitRule rule = SplitRule::kGpt2;
  bool ignore_merges = false;     ///< A word that is a token becomes that token, regardless of merges.
  std::uint32_t end_of_text = 0;  ///< Added token between documents.

  std::unordered_map<std::uint64_t, Merge> by_pair;             ///< Set by finish().
  std::unordered_map<std::string_view, std::uint32_t> by_text;  ///< Without added tokens; set by finish().

  /// Builds the look-up tables. The result of each merge must be a token.
  void finish();
};

/// Returns the key of by_pair.
constexpr std::uint64_t pair_key(std::uint32_t left, std::uint32_t right) { return std::uint64_t{left} << 32 | right; }

/// Encodes words of one vocabulary and caches them. Not thread-safe.
class WordEncoder {
 public:
  explicit WordEncoder(const Bpe& bpe) : bpe_(bpe) {}
  /// Appends the tokens of a nonempty word.
  void encode(std::string_view word, std::vector<std::uint32_t>& tokens);

 private:
  struct MergeCandidate {
    std::uint32_t rank;
    std::uint32_t at;
    TokenPair pair;
    std::uint32_t result;
    bool operator>(const MergeCandidate& other) const { return std::pair(rank, at) > std::pair(other.rank, other.at); }
  };
  struct SymbolNode {
    std::uint32_t token;
    std::uint32_t before;
    std::uint32_t after;
  };
  void merge(std::string_view word);
  void merge_long(std::string_view word, std::vector<std::uint32_t>& tokens);
  void push(std::uint32_t at);

  const Bpe& bpe_;
  std::vector<SymbolNode> nodes_;
  std::priority_queue<MergeCandidate, std::vector<MergeCandidate>, std::greater<>> queue_;
  std::unordered_map<std::string, std::vector<std::uint32_t>> seen_;
};

}  // namespace tessera::train::detail
