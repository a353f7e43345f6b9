// How often which token follows which.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace tessera::train::detail {

/// Counts pairs: as a table where the vocabulary is small, else those that there are.
class Bigrams {
 public:
  explicit Bigrams(std::int64_t vocabulary);
  /// Counts the pairs of neighbours; tokens must be less than the vocabulary.
  void add(std::span<const std::int32_t> tokens);
  /// The mean of -log(p(second | first)) over all pairs, with p from the counts themselves; 0 when there are none.
  [[nodiscard]] double entropy() const;

 private:
  std::uint64_t vocabulary_;
  std::vector<std::uint64_t> table_;  // empty: the vocabulary is large
  std::unordered_map<std::uint64_t, std::uint64_t> pairs_;
};

}  // namespace tessera::train::detail
