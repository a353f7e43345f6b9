// Repeated splitting of the indices that a rank holds of one dimension, in two forms:
//
// - for one rank: the chunk at its coordinate, as a range of each block, and the resulting IndexMap;
// - for all ranks together: the distinct forms of their indices (Holdings). Ceil-chunks have two lengths, full and
//   short, so the number of forms is small for any number of ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/layout/arithmetic.h"

namespace tessera::layout::detail {

/// Maximum size of a dimension.
inline constexpr std::int64_t kMaxSize = std::int64_t{1} << 62;

/// The range [lo, hi).
struct Range {
  std::int64_t lo = 0;
  std::int64_t hi = 0;
};

/// Returns the length of a full chunk of `size` split into `pieces`.
inline std::int64_t chunk_of(std::int64_t size, std::int64_t pieces) {
  const auto whole = static_cast<std::uint64_t>(size);
  const auto parts = static_cast<std::uint64_t>(pieces);
  // Most sizes are small, and a 32-bit division is much faster.
  if ((whole | parts) >> 31 == 0) {
    return static_cast<std::uint32_t>(whole + parts - 1) / static_cast<std::uint32_t>(parts);
  }
  return static_cast<std::int64_t>((whole + parts - 1) / parts);
}

/// Returns the chunk at `coordinate` of `size` split into `pieces` ceil-chunks.
inline Range chunk_range(std::int64_t size, std::int64_t pieces, std::int64_t coordinate) {
  const std::int64_t chunk = chunk_of(size, pieces);
  const std::int64_t lo = std::min(chunk * coordinate, size);
  return {lo, std::min(lo + chunk, size)};
}

/// Divides the indices of the map into `blocks` blocks and keeps `range` of each. Returns false if the result is not an
/// IndexMap, because the range breaks runs.
[[nodiscard]] bool keep_range(IndexMap& map, std::int64_t blocks, Range range);

/// The distinct forms in which ranks hold a dimension. Empty forms are omitted: they stay empty.
class Holdings {
 public:
  /// Constructs the form of an unsharded dimension.
  explicit Holdings(std::int64_t size);

  /// Returns true if every form divides into this many blocks, and each block into this many chunks.
  [[nodiscard]] bool all_divide_by(std::int64_t blocks, std::int64_t pieces) const;
  /// Returns the size of the largest form, 0 if no form exists.
  [[nodiscard]] std::int64_t largest() const;
  /// Splits each form into ceil-chunks. Returns an empty string, or the reason why the split is impossible.
  [[nodiscard]] std::string sharding(std::int64_t pieces, std::int64_t blocks);
  /// Makes the first split, into chunks of explicit sizes.
  void sharding(std::span<const std::int64_t> sizes);

 private:
  void add(const IndexMap& form);

  std::vector<IndexMap> forms_;  // offsets are 0
};

}  // namespace tessera::layout::detail
