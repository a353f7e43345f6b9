// Between the cuts of a dimension and the cuts of the factors it is made of.
//
// Where every cut divides evenly, an index is a number with mixed digits, major to minor: some are the coordinate along
// an atom, the others are what a rank still counts through. Cutting splits a digit; a cut with blocks splits one
// further to the right. So the order in which cuts were made does not matter, only where their digits stand, and the
// boundaries between factors are boundaries between digits. From the first uneven cut on there are no digits: those
// cuts are kept as they are, and belong to the last factor.
//
// A list of cuts is canonical when its even cuts stand in the order of their digits.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tessera/layout/detail/atoms.h"

namespace tessera::layout::detail {

/// A factor of a dimension.
struct SizedFactor {
  std::string_view name;
  std::int64_t size = 1;
};

/// An atom that two factors share: its first part, of this size, cuts the one, the rest the other.
struct AtomSplit {
  std::int32_t atom = -1;  ///< -1: none
  std::int64_t size = 1;
};

/// The canonical form of a list of cuts of `size` elements.
AtomDim canonical_cuts(const Atoms& atoms, const AtomDim& cuts, std::int64_t size);

/// The cuts of a dimension's factors, major to minor, each canonical. Where some cut is not one of a factor: false, and
/// `why` names its axis and the sizes; over finer atoms it may be one, which `split` then names. `out` has as many
/// places as there are factors.
bool split_cuts(const Atoms& atoms, const AtomDim& cuts, std::span<const SizedFactor> factors, std::span<AtomDim> out,
                AtomSplit& split, std::string& why);

/// The cuts of the dimension that is made of these factors, with these canonical cuts each. Where they would not be
/// cuts of the dimension: false, and `why` says which factor, axis and sizes.
bool merge_cuts(const Atoms& atoms, std::span<const AtomDim* const> cuts, std::span<const SizedFactor> factors,
                AtomDim& out, std::string& why);

/// Whether every piece of `size` elements under these cuts is made of whole blocks.
bool is_cut_in_blocks(const Atoms& atoms, const AtomDim& cuts, std::int64_t size, std::int64_t block);

/// "axis tp", or "a part of axis tp (2 of 8)".
std::string atom_name(const Atoms& atoms, std::int32_t atom);

}  // namespace tessera::layout::detail
