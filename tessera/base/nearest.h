// Suggestions for misspelled names. The distance is the number of letters to insert, delete, replace or swap with a
// neighbor (Damerau-Levenshtein: a swap counts as one). Case is ignored.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Returns the number of letters to insert, delete, replace or swap with a neighbor to turn `a` into `b`. Ignores case.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  const auto same = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  };
  std::vector<std::size_t> before(b.size() + 1);  // two rows up, for swaps
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1);
      row[j] = std::min({replaced, row[j - 1] + 1, above[j] + 1});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row.back();
}

/// Returns the candidate nearest to `word`, the first of equals. Ignores candidates whose distance exceeds both 2 and a
/// third of the longer word, or is not below the length of the longer word.
template <class Names>
std::optional<std::string> nearest(std::string_view word, const Names& candidates) {
  std::optional<std::string> best;
  std::size_t least = 0;
  for (const auto& candidate : candidates) {
    const std::string_view name(candidate);
    const std::size_t distance = edit_distance(word, name);
    const std::size_t longer = std::max(word.size(), name.size());
    if (distance > std::max<std::size_t>(2, longer / 3) || distance >= longer) continue;
    if (!best || distance < least) {
      best = std::string(name);
      least = distance;
    }
  }
  return best;
}

/// Returns " (did you mean 'info'?)" if a candidate is near enough,
/// otherwise an empty string. For the end of a message.
template <class Names>
std::string did_you_mean(std::string_view word, const Names& candidates) {
  const auto best = nearest(word, candidates);
  return best ? " (did you mean '" + *best + "'?)" : std::string();
}

}  // namespace tessera
