// Converts between the splits of a dimension and the splits of its factors.
//
// If every split divides evenly, an index is a mixed-radix number, major to minor. Some digits are coordinates along an
// atom; the others count the local indices of a rank. A split divides a digit; a split with blocks divides a digit
// further to the right. So only the positions of the digits matter, not the order of the splits, and boundaries between
// factors are boundaries between digits. After the first uneven split there are no digits: those splits stay as they
// are and belong to the last factor.
//
// A list of splits is canonical if its even splits are in the order of their digits.
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

/// An atom that two factors share: its first sub-axis, of this size, splits one factor, the rest splits the other.
struct AtomSplit {
  std::int32_t atom = -1;  ///< -1: no atom is shared.
  std::int64_t size = 1;
};

/// Returns the canonical form of a list of splits of `size` elements.
AtomDim canonical_shardings(const Atoms& atoms, const AtomDim& shardings, std::int64_t size);

/// Computes the canonical splits of the factors of a dimension, major to minor. `out` has one entry per factor. If a
/// split does not fall within one factor, returns false, and `why` names its axis and the sizes. If finer atoms would
/// help, `split` names the atom to divide.
bool split_shardings(const Atoms& atoms, const AtomDim& shardings, std::span<const SizedFactor> factors,
                     std::span<AtomDim> out, AtomSplit& split, std::string& why);

/// Computes the splits of the dimension from the canonical splits of its factors. If they are not splits of the
/// dimension, returns false, and `why` names the factor, the axis and the sizes.
bool merge_shardings(const Atoms& atoms, std::span<const AtomDim* const> shardings,
                     std::span<const SizedFactor> factors, AtomDim& out, std::string& why);

/// Returns true if every chunk of `size` elements under these splits consists of complete blocks.
bool is_sharded_in_blocks(const Atoms& atoms, const AtomDim& shardings, std::int64_t size, std::int64_t block);

/// Returns "axis tp", or "a part of axis tp (2 of 8)".
std::string atom_name(const Atoms& atoms, std::int32_t atom);

}  // namespace tessera::layout::detail
