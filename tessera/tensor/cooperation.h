// Computation along a sharded factor if a rank needs more than its own shard: softmax along a sharded dimension, norms,
// argmax. It runs in phases. In each phase, each rank computes small statistics of its shard (of the reduced or the
// output shape, never of the input shape). The ranks that shard the factor reduce them, and all receive the results.
// After the last phase, each rank finishes its shard of the outputs:
//
//   softmax   max over the shard -> max;   sum of exp(x - max) -> sum;   finish: exp(x - max) / sum
//
// If a reduction is not enough, a phase gathers the statistics of all ranks instead: the k best of each shard for topk,
// the total of each shard for cumsum.
//
// If factors of several kinds are sharded, a phase names the factors that it runs along: a mean loss over sharded rows
// of sharded classes reduces along the classes first, then along the rows.
//
// The tensors of an operator over lists may have different layouts and meshes. One of the ranks that hold a shard
// counts it; the others receive no tensor in its place.
//
// The operator communicates nothing else. The caller (the shard layer, or a test that
// simulates all ranks in a loop) runs the collectives.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layout/factor_rule.h"
#include "tessera/tensor/op_def.h"

namespace tessera::tensor {

/// A call on one of the cooperating ranks.
struct CooperativeCall {
  const Call& local;                             ///< The local shards, and the attributes of the local call.
  const Call& global;                            ///< The global call. Only the shapes of its tensors are used.
  std::span<const layout::LocalOperand> inputs;  ///< Indices of the local shards.
  std::span<const Tensor> reduced;               ///< Reduced statistics of earlier phases, in order.
  std::span<const Tensor> own;                   ///< Statistics of earlier phases of this rank alone.
};

/// One exchange of statistics.
struct CooperativePhase {
  /// Returns the statistics of this rank. Ranks with an empty shard return the identity of the reduction. Returns no
  /// tensors if the call does not need the phase; all ranks must agree on this.
  std::vector<Tensor> (*statistics)(const CooperativeCall& call);
  /// Reduction of each statistic. If empty, the statistics are gathered instead: each rank receives those of all ranks,
  /// stacked along a new first dimension in the same order. Their shapes must be equal on all ranks.
  std::vector<Reduction> reductions;
  /// Prefix of the names of the factors whose ranks take part. Empty: all factors marked with =cooperate. If none of
  /// these is sharded, the statistics of each rank are the reduced ones.
  std::string_view along = {};

  /// Returns true if the statistics are gathered instead of reduced.
  [[nodiscard]] bool is_gathered() const { return reductions.empty(); }
};

/// Phases of a cooperative operator, for OpDef::cooperation. The rule of
/// the operator marks the factors with =cooperate.
struct Cooperation {
  std::vector<CooperativePhase> phases;  ///< In order.
  /// Returns the local shard of each output, from the reduced statistics.
  std::vector<Tensor> (*finish)(const CooperativeCall& call);
};

}  // namespace tessera::tensor
