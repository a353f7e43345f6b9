// The mesh of a run and the distribution of its batches. The mesh has the axes dp (replicas of the state), fsdp (shards
// of every parameter, gathered before use) and tp (heads, hidden units and vocabulary; between the blocks, the
// sequence). The sharding table (nn/sharding_table.h) maps the meanings of dimensions to these axes.
//
//   const ParallelPlan plan = ParallelPlan::create(config, world_size);   // rejects what does not fit
//
// A world of one rank has no mesh: layouts are empty, and tensors are plain.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"
#include "tessera/layout/layout.h"
#include "tessera/nn/sharding_table.h"
#include "tessera/train/config.h"

namespace tessera::train {

/// Returns the sharding table of a configuration on `mesh`: the standard table with the rows of [sharding]. Throws
/// InvalidArgument, which names the option, for rows that name other axes than dp, fsdp and tp.
TESSERA_API nn::ShardingTable sharding_table(const Config& config, const layout::Mesh& mesh);

/// Mesh, sharding table and batches of a run. Immutable.
class TESSERA_API ParallelPlan {
 public:
  /// Creates the plan of a configuration, resolved or not. Throws what resolved() throws.
  static ParallelPlan create(const Config& config, int world_size);

  /// Returns the mesh; empty in a world of one rank.
  [[nodiscard]] const layout::Mesh& mesh() const { return mesh_; }
  /// Returns the sharding table.
  [[nodiscard]] const nn::ShardingTable& table() const { return table_; }
  /// Returns the layout of a batch [batch, ...] with this number of dimensions.
  [[nodiscard]] layout::Layout batch_layout(int ndim) const;

  /// Returns the number of ranks along dp.
  [[nodiscard]] int dp() const { return dp_; }
  /// Returns the number of ranks along fsdp.
  [[nodiscard]] int fsdp() const { return fsdp_; }
  /// Returns the number of ranks along tp.
  [[nodiscard]] int tp() const { return tp_; }
  /// Returns true if the sequence is sharded over tp between blocks.
  [[nodiscard]] bool is_sequence_parallel() const { return is_sequence_parallel_; }
  /// Returns the number of ranks that share a batch.
  [[nodiscard]] int batch_ranks() const { return batch_ranks_; }
  /// Returns the samples per micro-batch, over all ranks.
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  /// Returns the samples per micro-batch that each rank computes.
  [[nodiscard]] std::int64_t own_rows() const { return rows_ / batch_ranks_; }
  /// Returns the numbers of the samples that `rank` reads for micro-batch k of the run (k = 0, 1, ...).
  [[nodiscard]] std::vector<std::uint64_t> sample_numbers(std::uint64_t k, Rank rank) const;
  /// Returns the index of `rank` among the ranks that share a batch.
  [[nodiscard]] std::int64_t data_place(Rank rank) const;

 private:
  layout::Mesh mesh_;
  nn::ShardingTable table_;
  int dp_ = 1;
  int fsdp_ = 1;
  int tp_ = 1;
  bool is_sequence_parallel_ = true;
  int batch_ranks_ = 1;
  std::int64_t rows_ = 1;
};

}  // namespace tessera::train
