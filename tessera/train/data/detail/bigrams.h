// Counts of token pairs.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace tessera::train::detail {

/// Counts pairs: in a table if the vocabulary is small, otherwise in a map.
class Bigrams {
 public:
  explicit Bigrams(std::int64_t vocabulary);
  /// Counts the adjacent pairs. Tokens must be less than the vocabulary.
  void add(std::span<const std::int32_t> tokens);
  /// Returns the mean of -log(p(second | first)) over all pairs, with p from the counts; 0 without pairs.
  [[nodiscard]] double entropy() const;

 private:
  std::uint64_t vocabulary_;
  std::vector<std::uint64_t> table_;  // empty: the vocabulary is large
  std::unordered_map<std::uint64_t, std::uint64_t> pairs_;
};

}  // namespace tessera::train::detail
