// Hash tables of byte pair encoding: merges by pair, and the tokens of words that were encoded before. Open addressing
// in one array each, because encoding looks a pair up for every byte of new text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::train::detail {

/// No token.
inline constexpr std::uint32_t kNoToken = std::numeric_limits<std::uint32_t>::max();

/// Returns one number for two adjacent tokens.
constexpr std::uint64_t pair_key(std::uint32_t left, std::uint32_t right) { return std::uint64_t{left} << 32 | right; }

/// Result of a merge, and its rank: the merge of the lowest rank is made first.
struct Merge {
  std::uint32_t rank = kNoToken;  ///< kNoToken: the pair is not merged.
  std::uint32_t result = kNoToken;
};

/// Merges by pair.
class PairTable {
 public:
  /// Makes room for `count` pairs; more must not be added.
  explicit PairTable(std::size_t count = 0) {
    while (entries_.size() < 2 * count) entries_.resize(2 * entries_.size());
  }
  /// Adds a pair, unless it is there.
  void add(std::uint64_t pair, Merge merge) {
    Entry& entry = entries_[slot_of(pair)];
    if (entry.pair == kFree) entry = {pair, merge};
  }
  /// Returns the merge of a pair.
  [[nodiscard]] Merge find(std::uint64_t pair) const {
    const Entry& entry = entries_[slot_of(pair)];
    return entry.pair == pair ? entry.merge : Merge{};
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};  // kNoToken twice: no pair
  struct Entry {
    std::uint64_t pair = kFree;
    Merge merge;
  };
  [[nodiscard]] std::size_t slot_of(std::uint64_t pair) const {
    std::uint64_t hash = pair * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 32;
    std::size_t slot = hash & (entries_.size() - 1);
    while (entries_[slot].pair != kFree && entries_[slot].pair != pair) slot = (slot + 1) & (entries_.size() - 1);
    return slot;
  }
  std::vector<Entry> entries_ = std::vector<Entry>(2);  // a power of two, at least half of them free
};

/// Tokens of words. Forgets all words when it is full.
class WordCache {
 public:
  /// Longer words rarely repeat, and are not kept.
  static constexpr std::size_t kMaxWordBytes = 48;

  /// Returns the tokens of a word, valid until the next change, if they are known.
  [[nodiscard]] std::optional<std::span<const std::uint32_t>> find(std::string_view word) const {
    const Entry& entry = entries_[slot_of(word)];
    if (entry.nbytes == 0) return std::nullopt;
    return std::span(tokens_).subspan(entry.tokens, entry.count);
  }
  /// Adds a nonempty word of at most kMaxWordBytes.
  void add(std::string_view word, std::span<const std::uint32_t> tokens) {
    if (2 * words_ == entries_.size()) grow();
    entries_[slot_of(word)] = {static_cast<std::uint32_t>(bytes_.size()), static_cast<std::uint32_t>(word.size()),
                               static_cast<std::uint32_t>(tokens_.size()), static_cast<std::uint32_t>(tokens.size())};
    bytes_ += word;
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    ++words_;
  }

 private:
  static constexpr std::size_t kMaxEntries = std::size_t{1} << 18;
  struct Entry {
    std::uint32_t bytes = 0;
    std::uint32_t nbytes = 0;  // 0: free
    std::uint32_t tokens = 0;
    std::uint32_t count = 0;
  };
  [[nodiscard]] std::string_view text_of(const Entry& entry) const {
    return std::string_view(bytes_).substr(entry.bytes, entry.nbytes);
  }
  [[nodiscard]] std::size_t slot_of(std::string_view word) const {
    std::size_t slot = std::hash<std::string_view>()(word) & (entries_.size() - 1);
    while (entries_[slot].nbytes != 0 && text_of(entries_[slot]) != word) slot = (slot + 1) & (entries_.size() - 1);
    return slot;
  }
  void grow() {
    std::vector<Entry> before(std::min(2 * entries_.size(), kMaxEntries));
    before.swap(entries_);
    if (before.size() == kMaxEntries) {
      bytes_.clear();
      tokens_.clear();
      words_ = 0;
      return;
    }
    for (const Entry& entry : before) {
      if (entry.nbytes != 0) entries_[slot_of(text_of(entry))] = entry;
    }
  }
  std::vector<Entry> entries_ = std::vector<Entry>(256);  // a power of two, at least half of them free
  std::string bytes_;
  std::vector<std::uint32_t> tokens_;
  std::size_t words_ = 0;
};

}  // namespace tessera::train::detail
