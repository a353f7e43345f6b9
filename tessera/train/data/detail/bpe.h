// Byte pair encoding: a word is its bytes, one token each; then, as long as two neighbours can be merged, the pair of
// the least rank is, the leftmost first.
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

/// Two tokens that stand side by side.
using TokenPair = std::pair<std::uint32_t, std::uint32_t>;

/// What a merge makes, and when its turn is.
struct Merge {
  std::uint32_t rank = 0;
  std::uint32_t result = 0;
};

/// A vocabulary with its merges. Not changed after finish().
struct Bpe {
  Bpe() = default;
  Bpe(Bpe&&) = default;  // by_text looks into tokens, which stay where they are when a list moves
  Bpe& operator=(Bpe&&) = default;

  std::vector<std::string> tokens;              ///< the bytes of each
  std::vector<bool> is_added;                   ///< tokens that stand for no text: never the outcome of encoding
  std::array<std::uint32_t, 256> of_byte = {};  ///< the token of each byte
  std::vector<TokenPair> merges;                ///< by rank
  SplitRule rule = SplitRule::kGpt2;
  bool ignore_merges = false;     ///< a word that is a token is that token, whatever the merges say
  std::uint32_t end_of_text = 0;  ///< the added token between documents

  std::unordered_map<std::uint64_t, Merge> by_pair;             ///< made by finish()
  std::unordered_map<std::string_view, std::uint32_t> by_text;  ///< not of added tokens; made by finish()

  /// Fills in what is looked up by. The result of each merge must be a token.
  void finish();
};

/// For by_pair.
constexpr std::uint64_t pair_key(std::uint32_t left, std::uint32_t right) { return std::uint64_t{left} << 32 | right; }

/// Encodes words of one vocabulary; remembers the words it has seen. One thread.
class WordEncoder {
 public:
  explicit WordEncoder(const Bpe& bpe) : bpe_(bpe) {}
  /// Adds the tokens of a word that is not empty.
  void encode(std::string_view word, std::vector<std::uint32_t>& tokens);

 private:
  struct Candidate {
    std::uint32_t rank;
    std::uint32_t at;
    TokenPair pair;
    std::uint32_t result;
    bool operator>(const Candidate& other) const { return std::pair(rank, at) > std::pair(other.rank, other.at); }
  };
  struct Node {
    std::uint32_t token;
    std::uint32_t before;
    std::uint32_t after;
  };
  void merge(std::string_view word);
  void merge_long(std::string_view word, std::vector<std::uint32_t>& tokens);
  void push(std::uint32_t at);

  const Bpe& bpe_;
  std::vector<Node> nodes_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue_;
  std::unordered_map<std::string, std::vector<std::uint32_t>> seen_;
};

}  // namespace tessera::train::detail
