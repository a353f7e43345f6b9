// Who sends which elements to whom in one step, as data: no tensor, no device. Along a dimension two parts have runs of
// indices in common; runs of equal length at equal distances are one entry, so that even cuts, with blocks or without,
// give one piece for each peer. Every rank of the group computes its own side, and the two sides of a message list the
// same pieces in the same order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tessera/base/ids.h"
#include "tessera/base/shape.h"
#include "tessera/base/small_vector.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/layout/plan.h"
#include "tessera/tensor/rearrangement.h"

namespace tessera::shard::detail {

/// `count` runs of `length` indices of one dimension, in local indices of the part they come from and of the part they
/// go to.
struct CommonRun {
  std::int64_t from = 0;         ///< where the first begins in the one
  std::int64_t to = 0;           ///< and in the other
  std::int64_t length = 0;       ///< of each
  std::int64_t count = 1;        ///< how many
  std::int64_t from_stride = 0;  ///< between the beginnings of two, in the one
  std::int64_t to_stride = 0;    ///< and in the other
  friend bool operator==(const CommonRun&, const CommonRun&) = default;
};
/// The indices that both hold.
std::vector<CommonRun> common_runs(const layout::IndexMap& from, const layout::IndexMap& to);
/// What such runs lead from the one to the other. With a size of the dimension, `to` is taken backwards.
std::vector<CommonRun> moved_runs(const layout::IndexMap& from, const layout::IndexMap& to,
                                  std::span<const tensor::MovedRun> runs, std::int64_t reversed_size = -1);

/// Elements that go from one part to another: one CommonRun for each dimension.
struct Piece {
  SmallVector<CommonRun, 4> dims;

  /// How many elements.
  [[nodiscard]] std::int64_t numel() const;
  friend bool operator==(const Piece&, const Piece&) = default;
};
/// All pieces that are made of one run for each dimension.
std::vector<Piece> pieces_of_runs(std::span<const std::vector<CommonRun>> dims);
/// Elements of a list of pieces.
std::int64_t numel_of(std::span<const Piece> pieces);

/// What a rank holds of a tensor, by dimension.
using PartMaps = std::vector<layout::IndexMap>;
/// Of one rank.
PartMaps part_maps(const layout::Layout& layout, const Shape& shape, Rank rank);
/// The shape of such a part.
Shape shape_of(const PartMaps& part);
/// What two parts have in common, as pieces from the one to the other.
std::vector<Piece> common_pieces(const PartMaps& from, const PartMaps& to);

/// The parts of all ranks of a group, before and after a step.
struct GroupParts {
  std::vector<PartMaps> before;  ///< by place
  std::vector<PartMaps> after;   ///< by place
};
/// Of a step's group.
GroupParts group_parts(const layout::Step& step, const Shape& shape, std::span<const Rank> group);

/// What goes from one part to another.
using PiecesFn = std::function<std::vector<Piece>(const PartMaps& from, const PartMaps& to)>;

/// From whom each place takes what it has not: among those that hold the same part it takes from itself if it can, else
/// takers are dealt out evenly among the holders. [taker][n]: the holder it takes from of the n-th different part.
std::vector<std::vector<int>> choose_holders(const GroupParts& parts, const PiecesFn& pieces = common_pieces);

/// One place's side of an exchange: messages by place of the group, its own included.
struct Exchange {
  std::vector<std::vector<Piece>> sends;     ///< pieces of this place's old part, to parts of others
  std::vector<std::vector<Piece>> receives;  ///< pieces of others' old parts, to this place's new one
};
/// Of a place: each element of every new part comes from exactly one place.
Exchange exchange_of(const GroupParts& parts, int place, const PiecesFn& pieces = common_pieces);

}  // namespace tessera::shard::detail
