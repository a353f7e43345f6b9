// The bytes of a checkpoint that a rank reads, computed from the index alone.
//
// Tensors are sharded per dimension, so a plan is computed per dimension too. It walks the wanted indices of a
// dimension: the holder of the first one, the end of its run, the next holder (closed forms of the layout). The wanted
// part of a tensor is the product of these results, one *region* per file. The walk is shared by all tensors with equal
// layouts and shapes; one look-up per tensor and file remains. Nothing is searched, so the cost does not depend on the
// number of writers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tessera/train/checkpoint/detail/index.h"
#include "tessera/train/checkpoint/detail/ownership.h"

namespace tessera::train::detail {

/// Consecutive indices of one dimension, in the shard of a file and in the target shard.
struct Stretch {
  std::int64_t from = 0;  ///< First index in the shard of the file.
  std::int64_t to = 0;    ///< First index in the target shard.
  std::int64_t size = 0;  ///< Number of indices.
};

/// Contribution of one coordinate of the writers along a dimension.
struct DimSource {
  std::int64_t rank_step = 0;      ///< Offset that it adds to the rank.
  std::int64_t size = 0;           ///< Extent of the shard of the file along this dimension.
  std::vector<Stretch> stretches;  ///< Ascending; at least one.
};

/// Regions of a kind of tensors: the product of the sources of its dimensions.
struct RegionSet {
  std::vector<std::vector<DimSource>> dims;  ///< Sources per dimension.
  Shape filled = {};                         ///< Shape of the target shard.
  std::int64_t first_rank = 0;               ///< Rank of the first region, at index 0 of its holders.
  std::int64_t count = 1;                    ///< Number of regions: the product of the sizes of `dims`.

  /// Sets the sources of a region, one per dimension. Returns the rank at index 0 of the holders of its shard.
  std::int64_t region(std::int64_t number, std::vector<const DimSource*>& sources) const;
};

/// One region of one tensor.
struct PlannedRead {
  std::int32_t file = 0;     ///< Rank of the file.
  std::int32_t tensor = 0;   ///< Index in the list of wanted tensors.
  std::int32_t set = 0;      ///< Index of the RegionSet.
  std::int32_t region = 0;   ///< Region in that set.
  std::uint64_t offset = 0;  ///< Start of the shard in the file, in bytes.
};

/// Reads, by file, then by offset.
struct ReadPlan {
  std::vector<PlannedRead> reads;
  std::vector<std::shared_ptr<const RegionSet>> sets;
};

/// A tensor that a rank wants: its shard of a checkpoint tensor under this layout.
struct Wanted {
  std::size_t tensor = 0;      ///< Index of the tensor in the checkpoint.
  layout::Layout layout = {};  ///< Empty: the global tensor.
};

/// Plans the reads of one checkpoint. Not thread-safe.
class ReadPlanner {
 public:
  /// `index` must outlive the planner.
  explicit ReadPlanner(const CheckpointIndex& index);
  /// Returns the reads of `rank`. Throws IoError if a size in the index contradicts the layouts.
  [[nodiscard]] ReadPlan plan(const std::vector<Wanted>& wanted, Rank rank);
  /// Returns the owners of the shards.
  [[nodiscard]] const Ownership& ownership() const { return ownership_; }

 private:
  std::shared_ptr<const RegionSet> regions_of(const Wanted& wanted, Rank rank) const;
  const std::vector<std::uint64_t>& offsets_in(std::int64_t file);

  const CheckpointIndex& index_;
  Ownership ownership_;
  std::unordered_map<std::int64_t, std::vector<std::uint64_t>> offsets_;  // by file, then tensor
};

/// Throws IoError unless the size of the file of a rank in the index is that of its header and its shards.
void check_file_size(const CheckpointIndex& index, std::int64_t rank, const std::vector<FileShard>& pieces);

}  // namespace tessera::train::detail
