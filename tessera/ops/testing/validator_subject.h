// One sample of an operator made ready for the validator: its inputs as wholes, its results, its rule, and the
// combinations of layouts that the rule admits on a mesh.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/layout/propagate.h"
#include "tessera/ops/testing/op_case.h"
#include "tessera/ops/testing/simulated_shards.h"

namespace tessera::ops::testing {

/// Layouts of a call's inputs (none where an argument is left out) and of its results.
struct Combination {
  std::vector<layout::Layout> inputs;
  std::vector<layout::Layout> outputs;

  /// "{Shard(0)}, {Replicate()} -> {Shard(0)}".
  [[nodiscard]] std::string text() const;
  /// Whether an input is partial.
  [[nodiscard]] bool is_partial() const;
  /// The mesh.
  [[nodiscard]] const layout::Mesh& mesh() const;
};

/// See the head of this file.
class Subject {
 public:
  /// Makes the call on the whole, in f64, or in f32 where the operator refuses f64. Errors are the operator's.
  Subject(const OpCaseInfo& info, const OpSample& sample);

  /// The operator.
  [[nodiscard]] const tensor::Operator& op() const { return op_; }
  /// Its attributes.
  [[nodiscard]] tensor::AttributesRef attributes() const { return sample_->attributes.ref(); }
  /// The inputs; those left out have no values.
  [[nodiscard]] const std::vector<Whole>& inputs() const { return inputs_; }
  /// Whether an input is there.
  [[nodiscard]] bool has(std::size_t input) const { return !sample_->inputs[input].is_absent; }
  /// Whether its gradient is asked for: floating, and not said otherwise.
  [[nodiscard]] bool is_differentiable(std::size_t input) const;
  /// The inputs as plain tensors.
  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }
  /// The results of the call on the whole.
  [[nodiscard]] const std::vector<Whole>& outputs() const { return outputs_; }
  /// The same results as tensors.
  [[nodiscard]] const std::vector<Tensor>& output_tensors() const { return output_tensors_; }
  /// Errors up to this are rounding.
  [[nodiscard]] double tolerance() const { return tolerance_; }
  /// "mul(a: f64[5, 7] on host; alpha=1) note".
  [[nodiscard]] std::string text() const;
  /// The same sample with all floating inputs negated; none where that is no sensible call.
  [[nodiscard]] std::optional<Subject> negated() const;

  /// The combination of these input layouts, if the rule admits it.
  [[nodiscard]] std::optional<Combination> admitted(std::vector<layout::Layout> inputs, const layout::Mesh& mesh) const;
  /// What the results are claimed to be.
  [[nodiscard]] std::vector<ClaimedOutput> claims(const Combination& combination) const;
  /// The inputs cut as the combination says.
  [[nodiscard]] std::vector<Parts> cut_inputs(const Combination& combination, int style) const;
  /// Its rule; null: it makes a tensor from nothing.
  [[nodiscard]] const RuleOperands* rule() const { return rule_ ? &*rule_ : nullptr; }

 private:
  Subject() = default;
  void call_whole();
  void make(DType floating, double sign);

  const OpCaseInfo* info_ = nullptr;
  const OpSample* sample_ = nullptr;
  tensor::Operator op_;
  std::vector<Whole> inputs_;
  std::vector<Tensor> tensors_;
  std::vector<Whole> outputs_;
  std::vector<Tensor> output_tensors_;
  std::vector<Shape> output_shapes_;
  std::optional<RuleOperands> rule_;
  DType floating_ = DType::kF64;
  double tolerance_ = 0;
};

/// What an axis may do with each input of a call: a row for each way that the rule admits on a mesh of that axis alone.
using Row = std::vector<layout::Placement>;
/// All rows for an axis of `size` ranks; of very many candidates some are drawn.
std::vector<Row> admitted_rows(const Subject& subject, std::int64_t size, Random& random);

/// The combinations that the rule admits on a mesh.
struct Combinations {
  std::vector<Combination> list;
  std::int64_t admitted = 0;  // more than in the list where only some were drawn
};
/// See validator.h for which; at most `most` of a mesh of several axes.
Combinations admitted_combinations(const Subject& subject, const layout::Mesh& mesh, std::size_t most, Random& random);
/// Every combination of plain placements, asked one by one: for small calls, to hold the above against.
std::vector<Combination> all_combinations(const Subject& subject, const layout::Mesh& mesh);
/// The meshes that are tried: of 2 and 3 ranks, 2x2, 2x3 and 2x2x2.
std::vector<layout::Mesh> validator_meshes();
/// What an axis may do with one input, whatever the rule says.
std::vector<layout::Placement> placements_of(const Whole& input);

}  // namespace tessera::ops::testing
