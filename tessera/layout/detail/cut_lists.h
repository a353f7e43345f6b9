// All ordered lists of cuts that the planner may give a dimension, as small numbers. A list is a word of nibbles, the
// first cut lowest, so that the common prefix of two lists is one xor; a nibble is a token: 1 + the atom's bit for a
// plain cut, higher numbers for the few cuts with blocks or given sizes (and those behind cuts with blocks), which
// stand only where the source's or the target's list has them.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/layout/detail/atoms.h"

namespace tessera::layout::detail {

/// Most atoms of one search; see PlanSpace for what happens beyond.
constexpr int kMostInPlay = 6;
/// Nibbles: plain cuts take 1 to kMostInPlay.
constexpr int kMostTokens = 15;

using Mask = std::uint32_t;  ///< a set of atoms, by bit

/// A cut that a nibble stands for.
struct Token {
  int bit = 0;  ///< of the atom
  std::int64_t size = 1;
  std::int64_t blocks = 1;
  GivenSizes sizes = {};
  int dim = -1;              ///< the only dimension it stands in; -1: any
  std::uint64_t prefix = 0;  ///< and the list it stands behind there

  [[nodiscard]] bool is_plain() const { return dim < 0; }
};

/// One list.
struct CutList {
  std::uint64_t word = 0;
  Mask mask = 0;
  std::int16_t parent = 0;                         ///< the list without its last cut
  std::uint8_t size = 0;                           ///< how many cuts
  std::uint8_t last = 0;                           ///< token of the last cut
  std::int8_t dim = -1;                            ///< with special tokens: the only dimension it stands in
  bool has_blocks = false;                         ///< of some cut
  std::uint8_t prefix_mask[kMostInPlay + 1] = {};  ///< atoms of the first i cuts

  [[nodiscard]] Mask tail(int from) const { return mask & ~Mask{prefix_mask[from]}; }
};

/// How many leading cuts two different words share.
inline int common_prefix(std::uint64_t a, std::uint64_t b) { return std::countr_zero(a ^ b) / 4; }
/// Token at a place, 0 behind the end.
inline int token_at(std::uint64_t word, int place) { return static_cast<int>(word >> (4 * place) & 15); }
/// How many cuts a word has.
inline int list_size(std::uint64_t word) { return (64 - std::countl_zero(word) + 3) / 4; }

/// How one list follows from another, whatever the dimension.
struct ListRelation {
  enum Kind : std::uint8_t { kUnknown, kSame, kGrown, kShrunk, kApart };
  Kind kind = kUnknown;
  std::uint8_t from = 0;           ///< cuts in common
  std::uint8_t axes = 0;           ///< atoms of both tails
  bool has_same_product = false;   ///< apart: as many pieces, of plain cuts
  bool has_same_sequence = false;  ///< apart: the same cuts by other atoms
  double pieces = 1;               ///< shrunk: of the old tail; apart: of those a new piece meets
};

/// The list of `parent` (number `index`) with one more cut.
CutList append(const CutList& parent, std::int16_t index, int token, int bit, int dim);

/// All lists of plain cuts over `atoms` atoms, shorter ones first, and by_mask: their numbers grouped by set.
struct PlainLists {
  std::vector<CutList> lists;
  std::vector<std::int16_t> by_mask;         ///< numbers of lists
  std::vector<std::uint16_t> first_of_mask;  ///< into by_mask; one more than there are sets

  [[nodiscard]] std::span<const std::int16_t> of(Mask mask) const {
    return std::span(by_mask).subspan(first_of_mask[mask], first_of_mask[mask + 1] - first_of_mask[mask]);
  }
};
/// Made once for each number of atoms, 0 to kMostInPlay.
const PlainLists& plain_lists(int atoms);

}  // namespace tessera::layout::detail
