// Who holds which element: closed forms over a layout and a shape, O(cuts) each, whatever the number of ranks. Sizes up
// to 2^62; empty shards are legal, and lie at the end of their dimension. A partial tensor counts as held by all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/base/shape.h"
#include "tessera/base/small_vector.h"
#include "tessera/layout/layout.h"

namespace tessera::layout {

/// The indices of one dimension that a rank holds: runs of `block` that repeat. Local index i is read as
/// (i_0, ..., i_k, j) over the counts of the levels and the block, major to minor; the global index is
/// offset + sum of i_l * stride_l + j. Without levels it is one contiguous run.
struct TESSERA_API IndexMap {
  /// `count` of what the inner levels are, `stride` apart.
  struct Level {
    std::int64_t count = 1;   ///< at least 2
    std::int64_t stride = 1;  ///< in indices
    /// The same numbers.
    friend bool operator==(const Level&, const Level&) = default;
  };
  std::int64_t offset = 0;       ///< the first index; of nothing: the size of the dimension
  std::int64_t block = 0;        ///< length of a run; of nothing: 0
  SmallVector<Level, 2> levels;  ///< outer to inner; none: contiguous

  /// How many indices the rank holds.
  [[nodiscard]] std::int64_t size() const;
  /// The global index of a local one.
  [[nodiscard]] std::int64_t global(std::int64_t local) const;
  /// The local index of a global one; none: the rank does not hold it.
  [[nodiscard]] std::optional<std::int64_t> local(std::int64_t global) const;
  /// Whether it is one run.
  [[nodiscard]] bool is_contiguous() const { return levels.empty(); }
  /// The same indices in the same order: maps have one form.
  friend bool operator==(const IndexMap&, const IndexMap&) = default;
};

/// A rectangle of a tensor: per dimension [offset, offset + size).
struct TESSERA_API Box {
  SmallVector<std::int64_t, 8> offset;  ///< where it begins
  SmallVector<std::int64_t, 8> size;    ///< how far it goes; as many numbers

  /// How many elements; 1 without dimensions.
  [[nodiscard]] std::int64_t numel() const;
  /// "[2:4, 0:512]".
  [[nodiscard]] std::string text() const;
  /// The same numbers.
  friend bool operator==(const Box&, const Box&) = default;
};
/// What lies in both; of size 0 in some dimension when nothing does. They have as many dimensions each.
TESSERA_API Box intersect(const Box& a, const Box& b);

/// Refuses a shape that the layout does not fit: too few dimensions, one above 2^62, given sizes that do not add up to
/// a dimension, blocks that do not divide what is left of it on every rank, and cuts that break runs: what comes after
/// a cut with blocks takes whole runs, or stays inside of one. The error names the dimension and the axis. All
/// functions below check it too.
TESSERA_API void check_fits(const Layout& layout, const Shape& shape);

// A rank off the mesh holds nothing: shapes of 0, empty boxes. (Of a scalar this cannot be told: ask the mesh.)

/// The shape of the rank's part.
TESSERA_API Shape local_shape(const Layout& layout, const Shape& shape, Rank rank);
/// The indices of one dimension (counted from the end when negative) that the rank holds.
TESSERA_API IndexMap index_map(const Layout& layout, const Shape& shape, int dim, Rank rank);
/// The rank's part as a rectangle; InvalidArgument where it is not one (a cut with blocks).
TESSERA_API Box local_box(const Layout& layout, const Shape& shape, Rank rank);
/// The ranks that hold the element at `index`, in the order of the mesh's axes.
TESSERA_API RankSet owners(const Layout& layout, const Shape& shape, std::span<const std::int64_t> index);
/// Elements of the largest part. Plans are priced by it, so that they are the same on all ranks.
TESSERA_API std::int64_t largest_local_numel(const Layout& layout, const Shape& shape);

}  // namespace tessera::layout
