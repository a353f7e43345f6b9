// What a rank reads of a checkpoint: for each of its tensors which bytes of which files, from the index alone.
//
// Tensors are cut along dimensions one by one, so a plan is made one by one too. Along each dimension the wanted
// indices are walked: who holds the first of them, how far its run goes, who holds the next (closed forms of the
// layout). What is wanted of a tensor is then the product of what was found per dimension, a *region* for each file.
// The walk is done once for all tensors that are cut alike and wanted alike; per tensor and file remains one lookup.
// Nothing is searched, so that the cost is that of the answer, whatever the number of ranks that saved.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tessera/train/checkpoint/detail/index.h"
#include "tessera/train/checkpoint/detail/ownership.h"

namespace tessera::train::detail {

/// Indices of one dimension that lie behind each other in a file's part and in the part that is filled.
struct Stretch {
  std::int64_t from = 0;  ///< first index in the file's part
  std::int64_t to = 0;    ///< first index in the part that is filled
  std::int64_t size = 0;  ///< how many
};

/// What one coordinate of the writers along a dimension has of it.
struct DimSource {
  std::int64_t rank_step = 0;      ///< what it adds to the rank
  std::int64_t size = 0;           ///< of the file's part along this dimension
  std::vector<Stretch> stretches;  ///< rising; at least one
};

/// How a kind of tensors is filled: the product of the sources of its dimensions, one region for each.
struct RegionSet {
  std::vector<std::vector<DimSource>> dims;  ///< for each dimension
  Shape filled = {};                         ///< the part that is filled
  std::int64_t first_rank = 0;               ///< that holds the first region, at place 0 of its holders
  std::int64_t count = 1;                    ///< regions: the product of sizes of dims

  /// The sources of a region, one for each dimension, and the rank at place 0 of the holders of its part.
  std::int64_t region(std::int64_t number, std::vector<const DimSource*>& sources) const;
};

/// One region of one tensor.
struct PlannedRead {
  std::int32_t file = 0;     ///< rank whose file it is in
  std::int32_t tensor = 0;   ///< place in the plan's list of wanted tensors
  std::int32_t set = 0;      ///< of regions
  std::int32_t region = 0;   ///< in that set
  std::uint64_t offset = 0;  ///< where the file's part begins, from the start of the file
};

/// By file, then by offset.
struct ReadPlan {
  std::vector<PlannedRead> reads;
  std::vector<std::shared_ptr<const RegionSet>> sets;
};

/// A tensor that a rank wants: of the checkpoint's tensor, the part that this layout gives it.
struct Wanted {
  std::size_t tensor = 0;      ///< place in the index
  layout::Layout layout = {};  ///< empty: the whole
};

/// Plans reads of one checkpoint. For one thread.
class ReadPlanner {
 public:
  /// The index outlives it.
  explicit ReadPlanner(const CheckpointIndex& index);
  /// What `rank` reads for these. IoError when a size in the index does not agree with the layouts.
  [[nodiscard]] ReadPlan plan(const std::vector<Wanted>& wanted, Rank rank);
  /// Who writes what.
  [[nodiscard]] const Ownership& ownership() const { return ownership_; }

 private:
  std::shared_ptr<const RegionSet> regions_of(const Wanted& wanted, Rank rank) const;
  const std::vector<std::uint64_t>& offsets_in(std::int64_t file);

  const CheckpointIndex& index_;
  Ownership ownership_;
  std::unordered_map<std::int64_t, std::vector<std::uint64_t>> offsets_;  // by file, then tensor
};

/// IoError unless the size that the index gives for a rank's file is that of its header and its pieces.
void check_file_size(const CheckpointIndex& index, std::int64_t rank, const std::vector<Piece>& pieces);

}  // namespace tessera::train::detail
