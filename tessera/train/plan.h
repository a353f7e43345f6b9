// How a model lies on its ranks, as data. The mesh has the axes dp (copies of the whole state), fsdp (pieces of every
// parameter, gathered before use) and tp (heads, hidden units and vocabulary; between the blocks the sequence). Two
// tables say all of it: which dimension of each kind of parameter is cut over tp and over fsdp, and how activations lie
// at the points where a block is entered and left. Another plan is another table.
//
//   const Plan plan = Plan::create(config, world_size);      // refuses what does not fit, before anything runs
//   Tensor w = shard::zeros(shape, plan.kept(ParameterKind::kQuery));
//
// A world of one has no mesh: layouts are empty, and tensors plain.
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

/// What a parameter is for. Of a layer: those from kAttentionNorm to kDown.
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

/// One row of the table of parameters. A dimension of -1: not cut.
struct ParameterRow {
  ParameterKind kind;     ///< which parameters
  std::string_view name;  ///< as in names of parameters
  int tp;                 ///< dimension that is cut over tp
  int fsdp;               ///< dimension that is cut over fsdp, each piece of tp's for itself
  bool decays;            ///< whether weight decay applies
};
/// The table, in the order of the kinds.
TESSERA_API std::span<const ParameterRow> parameter_rows();
/// The row of a kind.
TESSERA_API const ParameterRow& row_of(ParameterKind kind);

/// Where activations have a layout of the plan's; all others follow from the operators.
enum class Point : std::uint8_t {
  kTokens,    ///< [batch, sequence]
  kResidual,  ///< [batch, sequence, width]: between the parts of blocks
  kInside,    ///< [batch, sequence, width]: what the matrices of a block are given
};
/// One row of the table of activations.
struct ActivationRow {
  Point point;      ///< where
  int data;         ///< dimension that is cut over dp and fsdp
  int tp_sequence;  ///< dimension that is cut over tp with sequence parallelism
  int tp_whole;     ///< likewise without
};
/// The table, in the order of the points.
TESSERA_API std::span<const ActivationRow> activation_rows();

/// See the head of this file. Immutable.
class TESSERA_API Plan {
 public:
  /// For a configuration, resolved or not: what resolved() refuses does not fit.
  static Plan create(const Config& config, int world_size);

  /// The ranks; none: a world of one.
  [[nodiscard]] const std::optional<layout::Mesh>& mesh() const { return mesh_; }
  /// How a parameter is kept, with its gradient and the optimizer's state. Empty in a world of one.
  [[nodiscard]] layout::Layout kept(ParameterKind kind) const;
  /// How it is when it is used: gathered over fsdp.
  [[nodiscard]] layout::Layout in_use(ParameterKind kind) const;
  /// How activations lie. `is_batch_cut`: over the data axes; else all of these have the same rows.
  [[nodiscard]] layout::Layout at(Point point, bool is_batch_cut = true) const;

  /// Ranks along dp.
  [[nodiscard]] int dp() const { return dp_; }
  /// Ranks along fsdp.
  [[nodiscard]] int fsdp() const { return fsdp_; }
  /// Ranks along tp.
  [[nodiscard]] int tp() const { return tp_; }
  /// Whether the sequence is cut over tp between blocks.
  [[nodiscard]] bool is_sequence_parallel() const { return is_sequence_parallel_; }
  /// Samples of one micro-batch, over all ranks.
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  /// Samples of one micro-batch that a rank computes.
  [[nodiscard]] std::int64_t own_rows() const { return rows_ / (dp_ * fsdp_); }
  /// Numbers of the samples that `rank` reads for micro-batch k of the run (k = 0, 1, ...).
  [[nodiscard]] std::vector<std::uint64_t> sample_numbers(std::uint64_t k, Rank rank) const;
  /// Which of the dp * fsdp shares of a batch is the rank's.
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
