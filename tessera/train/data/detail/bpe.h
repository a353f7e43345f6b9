// Byte pair encoding: a word starts as one symbol per byte, or per character. As long as two neighbors can be merged,
// the pair of the lowest rank is merged, the leftmost first.
//
// A character that is not in the vocabulary becomes the tokens of its bytes (byte fallback) or the unknown token, or is
// left out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/train/data/detail/pair_table.h"

namespace tessera::train::detail {

/// Two adjacent tokens.
using TokenPair = std::pair<std::uint32_t, std::uint32_t>;

/// A vocabulary with its merges. Immutable after finish().
struct Bpe {
  Bpe() { of_byte.fill(kNoToken); }
  Bpe(Bpe&&) = default;  // by_text refers to tokens, which keep their addresses when a list moves
  Bpe& operator=(Bpe&&) = default;

  std::vector<std::string> tokens;  ///< Text of each token; with is_byte_level, the bytes.
  std::vector<bool> is_added;       ///< Special, or not in the vocabulary: words never yield them.
  std::vector<TokenPair> merges;    ///< Merges by rank.
  bool is_byte_level = true;        ///< Symbols are bytes.
  bool ignore_merges = false;       ///< A word that is a token becomes that token, regardless of merges.
  bool fuses_unknown = false;       ///< Adjacent unknown characters become one token.
  std::uint32_t unknown = kNoToken;
  std::uint32_t end_of_text = 0;                ///< Token between documents.
  std::array<std::uint32_t, 256> of_byte = {};  ///< Token of each byte: symbols, or the tokens of byte fallback.

  std::vector<std::uint32_t> of_character;                      ///< Symbols below U+10000; set by finish().
  std::unordered_map<std::string_view, std::uint32_t> by_text;  ///< Without added tokens; set by finish().
  PairTable by_pair;                                            ///< Set by finish().
  PairTable joined;         ///< Pairs of symbols over whose boundary some merge goes; set by finish().
  bool can_divide = false;  ///< `joined` is complete: words can be divided where no merge goes; set by finish().

  /// Builds the look-up tables. The result of each merge must be a token.
  void finish();
  /// Returns the symbol of a character.
  [[nodiscard]] std::uint32_t symbol_of(std::string_view character, std::uint32_t code_point) const;

 private:
  void find_joined();
};

/// Encodes words of one vocabulary and caches them. Not thread-safe.
class WordEncoder {
 public:
  explicit WordEncoder(const Bpe& bpe) : bpe_(bpe) {}
  /// Receives the number of bytes that were encoded since the last call.
  using OnBytes = std::function<void(std::size_t nbytes)>;
  /// Appends the tokens of a nonempty word. Calls `on_bytes` after the word, and often during a long word, because a
  /// text without a pre-tokenizer is one word. If `on_bytes` throws, the encoder remains usable.
  void encode(std::string_view word, std::vector<std::uint32_t>& tokens, const OnBytes& on_bytes);

 private:
  struct Symbol {
    std::uint32_t token;
    std::uint32_t begin;  // in the word
  };
  struct Node {
    std::uint32_t token;
    std::uint32_t before;
    std::uint32_t after;
  };
  struct Candidate {
    std::uint32_t rank;
    std::uint32_t at;
    std::uint64_t pair;
    std::uint32_t result;
    bool operator>(const Candidate& other) const { return std::pair(rank, at) > std::pair(other.rank, other.at); }
  };
  std::size_t add_symbols(std::string_view word, std::size_t begin, std::size_t end);
  void add_character(std::string_view word, std::size_t begin, std::size_t nbytes, std::uint32_t code_point);
  void encode_long(std::string_view word, std::vector<std::uint32_t>& tokens, const OnBytes& on_bytes);
  void encode_part(std::string_view part, std::span<const Symbol> symbols, std::vector<std::uint32_t>& tokens);
  void merge(std::span<const Symbol> symbols, std::vector<std::uint32_t>& tokens);
  void merge_few(std::span<const Symbol> symbols, std::vector<std::uint32_t>& tokens);
  void merge_many(std::span<const Symbol> symbols, std::vector<std::uint32_t>& tokens);
  void push(std::uint32_t at);

  const Bpe& bpe_;
  WordCache cache_;
  std::vector<Symbol> symbols_;
  std::vector<std::uint32_t> made_;
  std::vector<Merge> merges_;        // merge_few(): of each token with the next
  std::vector<std::uint32_t> left_;  // merge_few(): tokens
  std::vector<Node> nodes_;          // merge_many()
  std::vector<Candidate> queue_;     // merge_many(): a heap
};

}  // namespace tessera::train::detail
