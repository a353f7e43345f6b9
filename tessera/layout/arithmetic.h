// Element ownership: closed forms over a layout and a shape. Each takes O(splits) time for any
// number of ranks. Sizes reach 2^62. Empty shards are legal and are at the end of their
// dimension. Every rank of a partial axis holds its elements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/base/shape.h"
#include "tessera/base/small_vector.h"
#include "tessera/layout/layout.h"

namespace tessera::layout {

/// The indices of one dimension that a rank holds: repeated runs of `block` indices. A local index i is read as (i_0,
/// ..., i_k, j) over the counts of the levels and the block, major to minor. The global index is offset + sum of i_l *
/// stride_l + j. Without levels, the map is one contiguous run.
struct TESSERA_API IndexMap {
  /// A repetition of the inner levels, `count` times, `stride` apart.
  struct StrideLevel {
    std::int64_t count = 1;   ///< At least 2.
    std::int64_t stride = 1;  ///< Distance in indices.
    /// Compares count and stride.
    friend bool operator==(const StrideLevel&, const StrideLevel&) = default;
  };
  std::int64_t offset = 0;             ///< First index. The size of the dimension if the rank holds no index.
  std::int64_t block = 0;              ///< Length of a run. 0 if the rank holds no index.
  SmallVector<StrideLevel, 2> levels;  ///< Outer to inner. Empty if the indices are contiguous.

  /// Returns the number of indices that the rank holds.
  [[nodiscard]] std::int64_t size() const;
  /// Returns the global index of a local index.
  [[nodiscard]] std::int64_t global(std::int64_t local) const;
  /// Returns the local index of a global index, or nothing if the rank does not hold it.
  [[nodiscard]] std::optional<std::int64_t> local(std::int64_t global) const;
  /// Returns true if the indices are one run.
  [[nodiscard]] bool is_contiguous() const { return levels.empty(); }
  /// Returns true if both maps have the same indices in the same order. Maps are canonical.
  friend bool operator==(const IndexMap&, const IndexMap&) = default;
};

/// A rectangle of a tensor: [offset, offset + size) in each dimension.
struct TESSERA_API Box {
  SmallVector<std::int64_t, 8> offset;  ///< First index in each dimension.
  SmallVector<std::int64_t, 8> size;    ///< Extent in each dimension.

  /// Returns the number of elements; 1 without dimensions.
  [[nodiscard]] std::int64_t numel() const;
  /// Returns the box as text, such as "[2:4, 0:512]".
  [[nodiscard]] std::string text() const;
  /// Compares offset and size.
  friend bool operator==(const Box&, const Box&) = default;
};
/// Returns the intersection. At least one of its sizes is 0 if the boxes are disjoint.
/// The boxes must have the same number of dimensions.
TESSERA_API Box intersect(const Box& a, const Box& b);

/// Throws InvalidArgument, which names the dimension and the axis, if the layout does not fit the shape: too few
/// dimensions, a dimension above 2^62, `sizes` that do not add up to a dimension, blocks that do not divide the
/// remaining extent on each rank, or a later split that breaks the runs of a split with blocks (it must take complete
/// runs or stay inside one). All functions below make this check too.
TESSERA_API void check_fits(const Layout& layout, const Shape& shape);

// A rank outside the mesh holds nothing: its shapes and boxes are empty. For a scalar, use Mesh::contains() instead.

/// Returns the shape of the local shard of `rank`.
TESSERA_API Shape local_shape(const Layout& layout, const Shape& shape, Rank rank);
/// Returns the indices of one dimension that the rank holds. A negative `dim` counts from the end.
TESSERA_API IndexMap index_map(const Layout& layout, const Shape& shape, int dim, Rank rank);
/// Returns the local shard as a rectangle. Throws InvalidArgument if it is not one (splits with blocks).
TESSERA_API Box local_box(const Layout& layout, const Shape& shape, Rank rank);
/// Returns the ranks that hold the element at `index`, in the order of the mesh axes.
TESSERA_API RankSet owners(const Layout& layout, const Shape& shape, std::span<const std::int64_t> index);
/// Returns the number of elements of the largest shard. Costs of plans use it so that all ranks compute the same costs.
TESSERA_API std::int64_t largest_local_numel(const Layout& layout, const Shape& shape);

}  // namespace tessera::layout
