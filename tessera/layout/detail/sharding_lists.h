// All ordered lists of splits that the planner may give a dimension, as small numbers. A list is a word of nibbles, the
// first split lowest, so one xor finds the common prefix of two lists. A nibble is a token: 1 + the bit of the atom for
// a plain split, higher numbers for the few splits with blocks or explicit sizes (and for splits after those with
// blocks), which appear only as in the list of the source or the target.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/layout/detail/atoms.h"

namespace tessera::layout::detail {

/// Maximum number of atoms of one search. PlanSpace handles the case of more atoms.
constexpr int kMaxInPlay = 6;
/// Maximum token. Plain splits use 1 to kMaxInPlay.
constexpr int kMaxTokens = 15;

using Mask = std::uint32_t;  ///< a set of atoms, by bit

/// The split that a nibble encodes.
struct Token {
  int bit = 0;  ///< Bit of the atom.
  std::int64_t size = 1;
  std::int64_t blocks = 1;
  GivenSizes sizes = {};
  int dim = -1;              ///< The only dimension that may have the split. -1: any.
  std::uint64_t prefix = 0;  ///< The list that must precede the split in that dimension.

  [[nodiscard]] bool is_plain() const { return dim < 0; }
};

/// One list of splits.
struct ShardingList {
  std::uint64_t word = 0;
  Mask mask = 0;
  std::int16_t parent = 0;                        ///< The list without its last split.
  std::uint8_t size = 0;                          ///< Number of splits.
  std::uint8_t last = 0;                          ///< Token of the last split.
  std::int8_t dim = -1;                           ///< The only dimension that may have a list with special tokens.
  bool has_blocks = false;                        ///< True if some split has blocks.
  std::uint8_t prefix_mask[kMaxInPlay + 1] = {};  ///< Atoms of the first i splits.

  [[nodiscard]] Mask tail(int from) const { return mask & ~Mask{prefix_mask[from]}; }
};

/// Returns the number of leading splits that two different words share.
inline int common_prefix(std::uint64_t a, std::uint64_t b) { return std::countr_zero(a ^ b) / 4; }
/// Returns the token at an index, 0 after the end.
inline int token_at(std::uint64_t word, int place) { return static_cast<int>(word >> (4 * place) & 15); }
/// Returns the number of splits of a word.
inline int list_size(std::uint64_t word) { return (64 - std::countl_zero(word) + 3) / 4; }

/// Relation between two lists, independent of the dimension.
struct ListRelation {
  enum Kind : std::uint8_t { kUnknown, kSame, kGrown, kShrunk, kApart };
  Kind kind = kUnknown;
  std::uint8_t from = 0;           ///< Number of common splits.
  std::uint8_t axes = 0;           ///< Atoms of both tails.
  bool has_same_product = false;   ///< kApart: equal numbers of chunks, of plain splits.
  bool has_same_sequence = false;  ///< kApart: the same splits by other atoms.
  double pieces = 1;               ///< kShrunk: chunks of the old tail. kApart: old chunks that a new chunk intersects.
};

/// Returns the list of `parent` (number `index`) with one more split.
ShardingList append(const ShardingList& parent, std::int16_t index, int token, int bit, int dim);

/// All lists of plain splits over `atoms` atoms, shorter ones first, and their numbers grouped by atom set.
struct PlainLists {
  std::vector<ShardingList> lists;
  std::vector<std::int16_t> by_mask;         ///< Numbers of lists.
  std::vector<std::uint16_t> first_of_mask;  ///< Indices into by_mask; one more entry than sets.

  [[nodiscard]] std::span<const std::int16_t> of(Mask mask) const {
    return std::span(by_mask).subspan(first_of_mask[mask], first_of_mask[mask + 1] - first_of_mask[mask]);
  }
};
/// Returns the lists for a number of atoms in [0, kMaxInPlay]. Each is computed once.
const PlainLists& plain_lists(int atoms);

}  // namespace tessera::layout::detail
