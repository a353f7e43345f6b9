// Several layouts of one mesh on common ground. Where one cuts by a whole axis and another by parts of it, both are
// read over the finest parts that any of them uses: the atoms. Planner and propagation work on these, with atoms as
// small numbers, and never meet a sub-axis.
//
// A cut by several atoms at once is several cuts in a row only where every piece comes out the same: the dimension must
// divide evenly there. Where it does not, or where parts do not nest (2 x 3 here, 3 x 2 there), there is no common
// ground, and the reason is given.
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

/// A cut by one atom.
struct AtomCut {
  std::int32_t atom = 0;
  std::int64_t blocks = 1;
  friend bool operator==(const AtomCut&, const AtomCut&) = default;
};

/// Given sizes of pieces; null: ceil-chunks.
using GivenSizes = std::shared_ptr<const std::vector<std::int64_t>>;
/// Whether both are none, or the same sizes.
inline bool are_same_sizes(const GivenSizes& a, const GivenSizes& b) { return a == b || (a && b && *a == *b); }

/// The cuts of one dimension over atoms.
struct AtomDim {
  SmallVector<AtomCut, 6> cuts;
  GivenSizes sizes = {};  ///< of the first cut's pieces
  friend bool operator==(const AtomDim& a, const AtomDim& b) {
    return a.cuts == b.cuts && are_same_sizes(a.sizes, b.sizes);
  }
};
/// How many leading cuts the two have in common.
std::size_t common_cuts(const AtomDim& a, const AtomDim& b);

/// A layout over atoms.
struct AtomLayout {
  std::vector<AtomDim> dims;                       ///< as many as the tensor has
  std::vector<std::optional<Reduction>> partials;  ///< by atom
  friend bool operator==(const AtomLayout&, const AtomLayout&) = default;

  /// Whether the atom cuts some dimension.
  [[nodiscard]] bool is_cut_by(std::int32_t atom) const;
};

/// The atoms of a mesh for a set of layouts: all of it but size-1 axes, by axis, major to minor.
struct Atoms {
  Mesh mesh;
  std::vector<SubAxis> list;

  /// The size of an atom.
  [[nodiscard]] std::int64_t size(std::int32_t atom) const { return list[static_cast<std::size_t>(atom)].size; }
};

/// The atoms of these layouts, all of one mesh. Where their parts do not nest: none, and `why` names the axis.
std::optional<Atoms> atoms_of(std::span<const Layout> layouts, std::string& why);
/// A layout of a tensor of this shape over the atoms. Where it has no such form: none, and `why` says it.
std::optional<AtomLayout> to_atoms(const Atoms& atoms, const Layout& layout, const Shape& shape, std::string& why);
/// Back again. Cuts by all atoms of an axis in a row are one cut by the axis where `shape` divides evenly.
Layout from_atoms(const Atoms& atoms, const AtomLayout& layout, const Shape& shape);

}  // namespace tessera::layout::detail
