// Sharded calls without the shard layer: one process simulates all ranks of a mesh in turn. A tensor with a layout
// stands for the shards of all ranks, which a table holds. During the lifetime of a SimulatedShards, it handles the
// calls of this thread with such inputs: it propagates layouts by the rule of the operator and makes one local call per
// rank through the normal path, with localized attributes. Incompatible inputs are gathered (the shards are recombined
// and given to every rank), and each gathered input counts as a move.
//
// If an operator has collectives and a factor that its rule marks as cooperative is sharded, plain functions over the
// statistics of all ranks simulate them.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/layout/propagate.h"
#include "tessera/ops/testing/recombine.h"
#include "tessera/tensor/call.h"

namespace tessera::ops::testing {

/// An expected result of a call.
struct ClaimedOutput {
  Shape shape;  // global
  DType dtype = DType::kF64;
  layout::Layout layout;
};

/// Makes the call on every rank of the mesh. Assumes that the outputs are as claimed; recombine() checks this. Only
/// enqueues the work. An error of a local call names the rank.
std::vector<Parts> call_on_ranks(const tensor::Operator& op, std::span<const Parts> inputs,
                                 const tensor::AttributesRef& attributes, std::span<const ClaimedOutput> outputs);

/// Waits for the host device at destruction, even after an exception. Declare it after memory that enqueued work reads.
struct WaitAtEnd {
  WaitAtEnd() = default;
  WaitAtEnd(const WaitAtEnd&) = delete;
  WaitAtEnd& operator=(const WaitAtEnd&) = delete;
  ~WaitAtEnd();
};

/// The tensors of a call in the order of its rule. An omitted optional argument may be absent from the rule.
struct RuleOperands {
  layout::FactorRule rule;
  std::vector<std::size_t> inputs;  // indices of the inputs of the call, in the order of the rule
};
/// Returns the rule of a call. Throws InvalidArgument if it has a different number of tensors.
RuleOperands rule_of(const tensor::Call& call);
/// Calls propagate() for the inputs of the call. An unset layout means replicated: an omitted argument or a plain
/// tensor.
layout::Propagation propagate_call(const RuleOperands& operands, const tensor::Call& call,
                                   std::span<const layout::Layout> layouts, std::span<const Shape> outputs,
                                   const layout::Mesh& mesh);

/// The simulated ranks of a mesh. At most one object per thread.
class SimulatedShards {
 public:
  /// Handles calls with tensors of this mesh.
  explicit SimulatedShards(const layout::Mesh& mesh);
  ~SimulatedShards();
  SimulatedShards(const SimulatedShards&) = delete;
  SimulatedShards& operator=(const SimulatedShards&) = delete;

  /// Returns a tensor that stands for these shards during the lifetime of this object.
  Tensor add(Parts parts);
  /// Returns the shards of a tensor; a plain tensor is on every rank.
  Parts parts_of(const Tensor& tensor) const;
  /// Returns the global value of a computed tensor. Throws MismatchError if its shards are inconsistent.
  [[nodiscard]] Whole whole_of(const Tensor& tensor) const;

  /// Returns one line per input that was gathered because of incompatible layouts, with the reason.
  [[nodiscard]] const std::vector<std::string>& moves() const { return moves_; }
  /// Returns the number of local calls so far.
  [[nodiscard]] std::int64_t local_calls() const { return local_calls_; }

 private:
  struct SimulatedTensor {
    Tensor tensor;  // keeps its address from being reused
    Parts parts;
  };
  static void answer(const tensor::Call& call);
  void run(const tensor::Call& call);
  void gather(const tensor::Call& call, std::vector<Parts>& inputs, const std::string& why);

  layout::Mesh mesh_;
  std::unordered_map<const tensor::detail::TensorState*, SimulatedTensor> entries_;
  std::vector<Parts> gathered_;  // kept for the work that reads them
  std::vector<std::string> moves_;
  std::int64_t local_calls_ = 0;
};

}  // namespace tessera::ops::testing
