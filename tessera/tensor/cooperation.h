// How an operator computes along a factor that is cut over ranks, where each rank's part alone is not enough: softmax
// along a cut dimension, norms, argmax. It goes in phases. In each, every rank computes small statistics of its part
// (of the reduced or of the output shape, never of the input's), they are reduced over the ranks that cut the factor,
// and all get the results; after the last, each rank finishes its part of the outputs:
//
//   softmax   max over the part -> max;   sum of exp(x - max) -> sum;   finish: exp(x - max) / sum
//
// Where folding is not enough, a phase hands everybody's statistics to all instead: the k best of each part for topk,
// the total of each part for cumsum.
//
// Where factors of several kinds are cut together, a phase names those it goes along: a mean loss over cut rows of cut
// classes reduces along the classes first, then along the rows.
//
// Of an operator over lists the tensors may be cut differently, and lie on several meshes. Every part is counted by one
// of the ranks that hold it: the others are given no tensor in its place.
//
// This is all the communication the operator has, and it is plain to see before it happens. Who runs the collectives
// (the shard layer, or a test that plays all ranks in a loop) is not the operator's business.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layout/factor_rule.h"
#include "tessera/tensor/op_def.h"

namespace tessera::tensor {

/// A call as one of the cooperating ranks sees it.
struct CooperativeCall {
  const Call& local;                             ///< this rank's parts, and attributes of the local call
  const Call& global;                            ///< the whole call; its tensors are looked at for shapes alone
  std::span<const layout::LocalOperand> inputs;  ///< where this rank's parts lie
  std::span<const Tensor> reduced;               ///< what earlier phases gave, reduced over the ranks, in order
  std::span<const Tensor> own;                   ///< the same as this rank alone gave it
};

/// One exchange of statistics.
struct CooperativePhase {
  /// This rank's statistics. Ranks whose part is empty give the identity of the reduction. None where this call has no
  /// need of the phase, which all ranks see alike.
  std::vector<Tensor> (*statistics)(const CooperativeCall& call);
  /// How each of them is reduced; none at all: they are not, every rank gets those of all ranks, stacked along a new
  /// first dimension in one order, and they have the same shapes on all of them.
  std::vector<layout::Reduction> reductions;
  /// Over the ranks that cut a factor whose name begins with this; empty: any factor that is marked with =cooperate.
  /// Where none of these is cut, each rank's own statistics are the reduced ones.
  std::string_view along = {};

  /// Whether statistics are handed to all as they are.
  [[nodiscard]] bool is_gathered() const { return reductions.empty(); }
};

/// See the head of this file. Given by OpDef::cooperation; the operator's rule marks the factors with =cooperate.
struct Cooperation {
  std::vector<CooperativePhase> phases;  ///< in order
  /// This rank's part of every output, from all that was reduced.
  std::vector<Tensor> (*finish)(const CooperativeCall& call);
};

}  // namespace tessera::tensor
