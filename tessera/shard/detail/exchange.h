// The transfers of one step, as data without tensors or devices. Along a dimension, two shards have runs of indices in
// common. Runs of equal length at equal distances form one entry, so even cuts, with or without blocks, yield one chunk
// per peer. Every rank computes its own side, and both sides of a message list the same chunks in the same order.
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

/// `count` runs of `length` indices of one dimension, in local indices of the source shard and of the target shard.
struct CommonRun {
  std::int64_t from = 0;         ///< Start of the first run in the source.
  std::int64_t to = 0;           ///< Start of the first run in the target.
  std::int64_t length = 0;       ///< Length of each run.
  std::int64_t count = 1;        ///< Number of runs.
  std::int64_t from_stride = 0;  ///< Distance between starts in the source.
  std::int64_t to_stride = 0;    ///< Distance between starts in the target.
  friend bool operator==(const CommonRun&, const CommonRun&) = default;
};
/// Returns the indices that both maps hold.
std::vector<CommonRun> common_runs(const layout::IndexMap& from, const layout::IndexMap& to);
/// Returns the indices that `runs` leads from one map to the other. With a size of the dimension, `to` is reversed.
std::vector<CommonRun> moved_runs(const layout::IndexMap& from, const layout::IndexMap& to,
                                  std::span<const tensor::MovedRun> runs, std::int64_t reversed_size = -1);

/// Elements that go from one shard to another: one CommonRun per dimension.
struct Chunk {
  SmallVector<CommonRun, 4> dims;

  /// Returns the number of elements.
  [[nodiscard]] std::int64_t numel() const;
  friend bool operator==(const Chunk&, const Chunk&) = default;
};
/// Returns all chunks with one run per dimension.
std::vector<Chunk> chunks_of_runs(std::span<const std::vector<CommonRun>> dims);
/// Returns the number of elements of a list of chunks.
std::int64_t numel_of(std::span<const Chunk> chunks);

/// Index maps of a shard, by dimension.
using ShardMaps = std::vector<layout::IndexMap>;
/// Returns the index maps of the shard of `rank`.
ShardMaps shard_maps(const layout::Layout& layout, const Shape& shape, Rank rank);
/// Returns the shape of a shard.
Shape shape_of(const ShardMaps& part);
/// Returns the common elements of two shards, as chunks from one to the other.
std::vector<Chunk> common_chunks(const ShardMaps& from, const ShardMaps& to);

/// Shards of all ranks of a group, before and after a step.
struct GroupShards {
  std::vector<ShardMaps> before;  ///< By group rank.
  std::vector<ShardMaps> after;   ///< By group rank.
};
/// Returns the shards of the group of a step.
GroupShards group_shards(const layout::Step& step, const Shape& shape, std::span<const Rank> group);

/// Computes the chunks that go from one shard to another.
using ChunksFn = std::function<std::vector<Chunk>(const ShardMaps& from, const ShardMaps& to)>;

/// Selects the source of the elements that each group rank lacks. Among the holders of the same shard, a rank takes
/// from itself if possible; other takers are distributed evenly. [taker][n] is the holder of the n-th distinct shard.
std::vector<std::vector<int>> choose_holders(const GroupShards& parts, const ChunksFn& chunks = common_chunks);

/// One side of an exchange: messages by group rank, including its own.
struct Exchange {
  std::vector<std::vector<Chunk>> sends;     ///< Pieces of the old shard of this rank, to the shards of others.
  std::vector<std::vector<Chunk>> receives;  ///< Pieces of the old shards of others, to the new shard of this rank.
};
/// Returns the side of group rank `place`. Each element of a new shard comes from exactly one rank.
Exchange exchange_of(const GroupShards& parts, int place, const ChunksFn& chunks = common_chunks);

}  // namespace tessera::shard::detail
