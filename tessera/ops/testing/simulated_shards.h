// Sharded calls without a shard layer: all ranks of a mesh are played in one process, one after the other. A tensor
// with a layout stands for the parts of all ranks, which a table keeps. While a SimulatedShards lives, calls on this
// thread that have such tensors among their inputs are answered by it: propagation by the operator's rule, one local
// call a rank through the normal path, attributes localized. Inputs that do not fit together are gathered (the parts
// put together and given to every rank), and each gathered input is counted as a move.
//
// An operator that states collectives of its own has them played where a factor that its rule marks so is cut: plain
// functions over all ranks' statistics.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/layout/propagate.h"
#include "tessera/ops/testing/recombine.h"
#include "tessera/tensor/call.h"

namespace tessera::ops::testing {

/// A result that a call is to have.
struct ClaimedOutput {
  Shape shape;  // global
  DType dtype = DType::kF64;
  layout::Layout layout;
};

/// Makes the call on every rank of the mesh; the outputs are taken to be as claimed, recombine() tells whether they
/// are. The work is only enqueued. An error of a rank's call names the rank.
std::vector<Parts> call_on_ranks(const tensor::Operator& op, std::span<const Parts> inputs,
                                 const tensor::AttributesRef& attributes, std::span<const ClaimedOutput> outputs);

/// Waits for the host device when it goes, whatever happened: stands behind memory that enqueued work reads.
struct WaitAtEnd {
  WaitAtEnd() = default;
  WaitAtEnd(const WaitAtEnd&) = delete;
  WaitAtEnd& operator=(const WaitAtEnd&) = delete;
  ~WaitAtEnd();
};

/// How a call's tensors stand in its rule: an optional argument that is left out may have no place there.
struct RuleOperands {
  layout::FactorRule rule;
  std::vector<std::size_t> inputs;  // of the call, in the order of the rule
};
/// The rule of a call; InvalidArgument where it names another number of tensors.
RuleOperands rule_of(const tensor::Call& call);
/// propagate() with what the call's inputs have; no layout: replicated, an argument left out or a plain tensor.
layout::Propagation propagate_call(const RuleOperands& operands, const tensor::Call& call,
                                   std::span<const layout::Layout> layouts, std::span<const Shape> outputs,
                                   const layout::Mesh& mesh);

/// See the head of this file. One at a time a thread.
class SimulatedShards {
 public:
  /// Answers calls on tensors of this mesh.
  explicit SimulatedShards(const layout::Mesh& mesh);
  ~SimulatedShards();
  SimulatedShards(const SimulatedShards&) = delete;
  SimulatedShards& operator=(const SimulatedShards&) = delete;

  /// The tensor that stands for these parts, for as long as this object lives.
  Tensor add(Parts parts);
  /// What a tensor stands for; a plain one is on every rank.
  Parts parts_of(const Tensor& tensor) const;
  /// The whole behind a tensor, once computed; MismatchError where its parts make none.
  [[nodiscard]] Whole whole_of(const Tensor& tensor) const;

  /// Inputs that were gathered because they did not fit together, and why: one line each.
  [[nodiscard]] const std::vector<std::string>& moves() const { return moves_; }
  /// Local calls made so far.
  [[nodiscard]] std::int64_t local_calls() const { return local_calls_; }

 private:
  struct Entry {
    Tensor tensor;  // kept, so that no other takes its address
    Parts parts;
  };
  static void answer(const tensor::Call& call);
  void run(const tensor::Call& call);
  void gather(const tensor::Call& call, std::vector<Parts>& inputs, const std::string& why);

  layout::Mesh mesh_;
  std::unordered_map<const tensor::detail::TensorState*, Entry> entries_;
  std::vector<Parts> gathered_;  // kept for the work that reads them
  std::vector<std::string> moves_;
  std::int64_t local_calls_ = 0;
};

}  // namespace tessera::ops::testing
