// A common basis for several layouts of one mesh. If one layout shards by an axis and another by sub-axes of it, both
// are expressed over the finest sub-axes that any of them uses: the atoms. The planner and the propagation use small
// atom numbers and never see a sub-axis.
//
// A split by several atoms equals several consecutive splits only if all chunks are equal: the dimension must divide
// evenly. Otherwise, or if sub-axes do not nest (2 x 3 in one layout, 3 x 2 in another), no common basis exists, and
// the functions return the reason.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/base/small_vector.h"
#include "tessera/layout/layout.h"

namespace tessera::layout::detail {

/// A split by one atom.
struct AtomSharding {
  std::int32_t atom = 0;
  std::int64_t blocks = 1;
  friend bool operator==(const AtomSharding&, const AtomSharding&) = default;
};

/// Explicit chunk sizes. Null: ceil-chunks.
using GivenSizes = std::shared_ptr<const std::vector<std::int64_t>>;
/// Returns true if both are null or have equal sizes.
inline bool are_same_sizes(const GivenSizes& a, const GivenSizes& b) { return a == b || (a && b && *a == *b); }

/// The splits of one dimension over atoms.
struct AtomDim {
  SmallVector<AtomSharding, 6> shardings;
  GivenSizes sizes = {};  ///< Chunk sizes of the first split.
  friend bool operator==(const AtomDim& a, const AtomDim& b) {
    return a.shardings == b.shardings && are_same_sizes(a.sizes, b.sizes);
  }
};
/// Returns the number of leading splits that both share.
std::size_t common_shardings(const AtomDim& a, const AtomDim& b);

/// A layout over atoms.
struct AtomLayout {
  std::vector<AtomDim> dims;                       ///< One per dimension of the tensor.
  std::vector<std::optional<Reduction>> partials;  ///< Indexed by atom.
  friend bool operator==(const AtomLayout&, const AtomLayout&) = default;

  /// Returns true if the atom shards some dimension.
  [[nodiscard]] bool is_sharded_by(std::int32_t atom) const;
};

/// The atoms of a mesh for a set of layouts. They cover all axes larger than 1, ordered by axis, major to minor.
struct Atoms {
  Mesh mesh;
  std::vector<SubAxis> list;

  /// Returns the size of an atom.
  [[nodiscard]] std::int64_t size(std::int32_t atom) const { return list[static_cast<std::size_t>(atom)].size; }
};

/// Returns the atoms of these layouts, which must have one mesh. If their sub-axes do
/// not nest, returns nothing, and `why` names the axis.
std::optional<Atoms> atoms_of(std::span<const Layout> layouts, std::string& why);
/// Returns the layout of a tensor of this shape over the atoms. If it has no such form, returns nothing and sets `why`.
std::optional<AtomLayout> to_atoms(const Atoms& atoms, const Layout& layout, const Shape& shape, std::string& why);
/// Converts back to a layout. Consecutive splits by all atoms of an axis become
/// one split by the axis if `shape` divides evenly.
Layout from_atoms(const Atoms& atoms, const AtomLayout& layout, const Shape& shape);

}  // namespace tessera::layout::detail
