// One sample of an operator, prepared for the validator: its global inputs and results, its rule, and the combinations
// of layouts that the rule admits on a mesh.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/layout/propagate.h"
#include "tessera/ops/testing/op_case.h"
#include "tessera/ops/testing/simulated_shards.h"

namespace tessera::ops::testing {

/// Layouts of the inputs of a call (unset for an omitted argument) and of its results.
struct Combination {
  std::vector<layout::Layout> inputs;
  std::vector<layout::Layout> outputs;

  /// Returns for example "{Shard(0)}, {Replicate()} -> {Shard(0)}".
  [[nodiscard]] std::string text() const;
  /// Returns true if an input is partial.
  [[nodiscard]] bool is_partial() const;
  /// Returns the mesh of the layouts.
  [[nodiscard]] const layout::Mesh& mesh() const;
};

/// A prepared sample.
class Subject {
 public:
  /// Makes the global call, in f64, or in f32 if the operator rejects f64. Throws the errors of the operator.
  Subject(const OpCaseInfo& info, const OpSample& sample);

  /// Returns the operator.
  [[nodiscard]] const tensor::Operator& op() const { return op_; }
  /// Returns the attributes.
  [[nodiscard]] tensor::AttributesRef attributes() const { return sample_->attributes.ref(); }
  /// Returns the inputs; omitted inputs have no values.
  [[nodiscard]] const std::vector<Whole>& inputs() const { return inputs_; }
  /// Returns true if an input is present.
  [[nodiscard]] bool has(std::size_t input) const { return !sample_->inputs[input].is_absent; }
  /// Returns true if the gradient of an input is checked: floating, and not excluded by the sample.
  [[nodiscard]] bool is_differentiable(std::size_t input) const;
  /// Returns the inputs as plain tensors.
  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }
  /// Returns the results of the global call.
  [[nodiscard]] const std::vector<Whole>& outputs() const { return outputs_; }
  /// Returns the results as tensors.
  [[nodiscard]] const std::vector<Tensor>& output_tensors() const { return output_tensors_; }
  /// Returns the error that rounding may cause.
  [[nodiscard]] double tolerance() const { return tolerance_; }
  /// Returns for example "mul(a: f64[5, 7] on host; alpha=1) note".
  [[nodiscard]] std::string text() const;
  /// Returns the sample with all floating inputs negated; nullopt if that call is invalid.
  [[nodiscard]] std::optional<Subject> negated() const;

  /// Returns the combination of these input layouts, if the rule admits it.
  [[nodiscard]] std::optional<Combination> admitted(std::vector<layout::Layout> inputs, const layout::Mesh& mesh) const;
  /// Returns the expected results.
  [[nodiscard]] std::vector<ClaimedOutput> claims(const Combination& combination) const;
  /// Returns the inputs sharded by the combination.
  [[nodiscard]] std::vector<Parts> sharded_inputs(const Combination& combination, int style) const;
  /// Returns the rule; null if the operator has no inputs.
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

/// The placements of one axis for each input of a call: one row for each way that the rule admits on a mesh of that
/// axis.
using Row = std::vector<layout::Placement>;
/// Returns all rows for an axis of `size` ranks; a random selection if there are very many candidates.
std::vector<Row> admitted_rows(const Subject& subject, std::int64_t size, Random& random);

/// The combinations that the rule admits on a mesh.
struct Combinations {
  std::vector<Combination> list;
  std::int64_t admitted = 0;  // exceeds the list if it is a selection
};
/// Returns the combinations described in validator.h; at most `most` on a mesh of several axes.
Combinations admitted_combinations(const Subject& subject, const layout::Mesh& mesh, std::size_t most, Random& random);
/// Returns every admitted combination of plain placements, each checked: for small calls, as a reference for the above.
std::vector<Combination> all_combinations(const Subject& subject, const layout::Mesh& mesh);
/// Returns the meshes of the validator: 2 and 3 ranks, 2x2, 2x3 and 2x2x2.
std::vector<layout::Mesh> validator_meshes();
/// Returns the possible placements of one input, regardless of the rule.
std::vector<layout::Placement> placements_of(const Whole& input);

}  // namespace tessera::ops::testing
