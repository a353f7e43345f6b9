// Parallelism plan of a model, as data. The mesh has the axes dp (replicas of the state), fsdp (shards of every
// parameter, gathered before use) and tp (heads, hidden units and vocabulary; between the blocks, the sequence). Two
// tables define the plan: the dimension of each kind of parameter that tp and fsdp shard, and the layouts of
// activations where a block is entered and left. Another plan is another table.
//
//   const Plan plan = Plan::create(config, world_size);      // rejects what does not fit, before anything runs
//   Tensor w = ops::zeros(shape, {.layout = plan.kept(ParameterKind::kQuery)});
//
// A world of one rank has no mesh: layouts are empty, and tensors are plain.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"
#include "tessera/layout/layout.h"
#include "tessera/train/config.h"

namespace tessera::train {

/// Role of a parameter. Layers have those from kAttentionNorm to kDown.
enum class ParameterKind : std::uint8_t {
  kEmbedding,        ///< [vocabulary, width]
  kAttentionNorm,    ///< [width]
  kQuery,            ///< [heads * d, width]
  kKey,              ///< [kv heads * d, width]
  kValue,            ///< [kv heads * d, width]
  kOut,              ///< [width, heads * d]
  kFeedForwardNorm,  ///< [width]
  kGate,             ///< [hidden, width]
  kUp,               ///< [hidden, width]
  kDown,             ///< [width, hidden]
  kLastNorm,         ///< [width]
  kHead,             ///< [vocabulary, width]
};

/// One row of the parameter table. A dimension of -1 is not sharded.
struct ParameterRow {
  ParameterKind kind;     ///< Kind of the parameters.
  std::string_view name;  ///< Last component of parameter names.
  int tp;                 ///< Dimension sharded over tp.
  int fsdp;               ///< Dimension sharded over fsdp, within each shard of tp.
  bool decays;            ///< True if weight decay applies.
};
/// Returns the parameter table, in the order of the kinds.
TESSERA_API std::span<const ParameterRow> parameter_rows();
/// Returns the row of `kind`.
TESSERA_API const ParameterRow& row_of(ParameterKind kind);

/// Point at which the plan sets the layout of activations. Other layouts follow from the operators.
enum class ActivationPoint : std::uint8_t {
  kTokens,    ///< [batch, sequence]
  kResidual,  ///< [batch, sequence, width]: between the halves of blocks.
  kInside,    ///< [batch, sequence, width]: input of the matrices of a block.
};
/// One row of the activation table. A dimension of -1 is not sharded.
struct ActivationRow {
  ActivationPoint point;  ///< Point of the activations.
  int data;               ///< Dimension sharded over dp and fsdp.
  int tp_sequence;        ///< Dimension sharded over tp with sequence parallelism.
  int tp_whole;           ///< Dimension sharded over tp without sequence parallelism.
};
/// Returns the activation table, in the order of the points.
TESSERA_API std::span<const ActivationRow> activation_rows();

/// Layouts of all parameters and activations of a model. Immutable.
class TESSERA_API ParallelPlan {
 public:
  /// Creates the plan of a configuration, resolved or not. Throws what resolved() throws.
  static ParallelPlan create(const Config& config, int world_size);

  /// Returns the mesh, or nothing in a world of one rank.
  [[nodiscard]] const std::optional<layout::Mesh>& mesh() const { return mesh_; }
  /// Returns the stored layout of a parameter, its gradient and its optimizer state. Empty in a world of one rank.
  [[nodiscard]] layout::Layout kept(ParameterKind kind) const;
  /// Returns the layout of a parameter in use: gathered over fsdp.
  [[nodiscard]] layout::Layout in_use(ParameterKind kind) const;
  /// Returns the layout of activations. If `is_batch_sharded`, the batch is sharded over the data axes. Otherwise all
  /// data ranks have the same rows.
  [[nodiscard]] layout::Layout at(ActivationPoint point, bool is_batch_sharded = true) const;

  /// Returns the number of ranks along dp.
  [[nodiscard]] int dp() const { return dp_; }
  /// Returns the number of ranks along fsdp.
  [[nodiscard]] int fsdp() const { return fsdp_; }
  /// Returns the number of ranks along tp.
  [[nodiscard]] int tp() const { return tp_; }
  /// Returns true if the sequence is sharded over tp between blocks.
  [[nodiscard]] bool is_sequence_parallel() const { return is_sequence_parallel_; }
  /// Returns the samples per micro-batch, over all ranks.
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  /// Returns the samples per micro-batch that each rank computes.
  [[nodiscard]] std::int64_t own_rows() const { return rows_ / (dp_ * fsdp_); }
  /// Returns the numbers of the samples that `rank` reads for micro-batch k of the run (k = 0, 1, ...).
  [[nodiscard]] std::vector<std::uint64_t> sample_numbers(std::uint64_t k, Rank rank) const;
  /// Returns the index of `rank` among the dp * fsdp data ranks.
  [[nodiscard]] std::int64_t data_place(Rank rank) const;

 private:
  [[nodiscard]] layout::Layout parameter_layout(ParameterKind kind, bool is_gathered) const;

  std::optional<layout::Mesh> mesh_;
  int dp_ = 1;
  int fsdp_ = 1;
  int tp_ = 1;
  bool is_sequence_parallel_ = true;
  std::int64_t rows_ = 1;
};

}  // namespace tessera::train
