// Cutting what a rank holds of one dimension, again and again. Two views of it:
//
// - one rank's: the piece at its coordinate, as a range of each block, and what an IndexMap becomes by it;
// - all ranks' at once: the different forms that what they hold has (Holdings). Ceil-chunks are of two lengths, whole
//   and short, so that there are few forms, however many ranks there are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/layout/arithmetic.h"

namespace tessera::layout::detail {

/// Largest size of a dimension.
inline constexpr std::int64_t kMostSize = std::int64_t{1} << 62;

/// [lo, hi).
struct Range {
  std::int64_t lo = 0;
  std::int64_t hi = 0;
};

/// The length of a whole chunk of `size` cut into `pieces`.
inline std::int64_t chunk_of(std::int64_t size, std::int64_t pieces) {
  const auto whole = static_cast<std::uint64_t>(size);
  const auto parts = static_cast<std::uint64_t>(pieces);
  // Most sizes are small, and a narrow division is much the faster one.
  if ((whole | parts) >> 31 == 0) {
    return static_cast<std::uint32_t>(whole + parts - 1) / static_cast<std::uint32_t>(parts);
  }
  return static_cast<std::int64_t>((whole + parts - 1) / parts);
}

/// The piece at `coordinate` of `size` cut into `pieces` ceil-chunks.
inline Range chunk_range(std::int64_t size, std::int64_t pieces, std::int64_t coordinate) {
  const std::int64_t chunk = chunk_of(size, pieces);
  const std::int64_t lo = std::min(chunk * coordinate, size);
  return {lo, std::min(lo + chunk, size)};
}

/// Keeps of each of the `blocks` blocks that the map's indices are divided into the local range of it. False: what is
/// left is not of the form of an IndexMap, as the range would break runs.
[[nodiscard]] bool keep_range(IndexMap& map, std::int64_t blocks, Range range);

/// The forms in which the ranks hold a dimension. Empty ones are left out: nothing becomes of them.
class Holdings {
 public:
  /// The dimension whole.
  explicit Holdings(std::int64_t size);

  /// Whether every form divides into this many blocks, and each block into this many pieces.
  [[nodiscard]] bool all_divide_by(std::int64_t blocks, std::int64_t pieces) const;
  /// The size of the largest; 0: there is none.
  [[nodiscard]] std::int64_t largest() const;
  /// Cuts each into ceil-chunks; the answer is empty, or says why it cannot be.
  [[nodiscard]] std::string cut(std::int64_t pieces, std::int64_t blocks);
  /// The first cut, into given pieces.
  void cut(std::span<const std::int64_t> sizes);

 private:
  void add(const IndexMap& form);

  std::vector<IndexMap> forms_;  // offsets are 0
};

}  // namespace tessera::layout::detail
