// Gradients of sharded calls. The same function runs the gradient of the operator twice: on global tensors, and on
// simulated tensors of all ranks, which propagate layouts through every operator that the gradient calls.
#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/layout/planner.h"
#include "tessera/ops/testing/validator.h"
#include "tessera/ops/testing/validator_subject.h"

namespace tessera::ops::testing {
namespace {

using layout::Layout;
using layout::Mesh;
using tessera::detail::concat;

constexpr std::size_t kMaxStuck = 3;

// A GradientCall for a call that was made before.
class MadeCall final : public tensor::GradientCall {
 public:
  MadeCall(const Subject& subject, std::vector<Tensor> inputs, std::vector<Tensor> outputs, std::vector<Tensor> grads)
      : subject_(subject), inputs_(std::move(inputs)), outputs_(std::move(outputs)), grads_(std::move(grads)) {
    gradients_.resize(inputs_.size());
  }

  [[nodiscard]] const Tensor& grad(int output) const override { return grads_[static_cast<std::size_t>(output)]; }
  [[nodiscard]] const Tensor& input(int index) const override { return inputs_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] const Tensor& output(int index) const override { return outputs_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] const Shape& input_shape(int index) const override {
    return subject_.inputs()[static_cast<std::size_t>(index)].shape;
  }
  [[nodiscard]] DType input_dtype(int index) const override {
    return subject_.inputs()[static_cast<std::size_t>(index)].dtype;
  }
  [[nodiscard]] int inputs() const override { return static_cast<int>(inputs_.size()); }
  [[nodiscard]] bool needs(int input) const override {
    return subject_.is_differentiable(static_cast<std::size_t>(input));
  }
  void set(int input, Tensor gradient) override { gradients_[static_cast<std::size_t>(input)] = std::move(gradient); }
  [[nodiscard]] tensor::AttributesRef attributes() const override { return subject_.attributes(); }

  [[nodiscard]] const std::vector<Tensor>& gradients() const { return gradients_; }

 private:
  const Subject& subject_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  std::vector<Tensor> grads_;
  std::vector<Tensor> gradients_;
};

// A sample with gradients of its results, and the global gradients of its inputs.
struct BackwardSubject {
  const Subject& subject;
  std::vector<std::optional<Whole>> grads;  // of the results; unset if nothing depends on it
  std::vector<std::optional<Whole>> want;   // of the inputs; unset if zero or not requested
};

// Computes the global gradients of the inputs. Only the first `outputs` results have a gradient.
BackwardSubject whole_gradients(const Subject& subject, std::size_t outputs, Random& random) {
  BackwardSubject out{subject, {}, {}};
  std::vector<Tensor> grads;
  for (const Whole& result : subject.outputs()) {
    const bool flows = is_floating(result.dtype) || is_complex(result.dtype);
    Whole grad{result.shape, result.dtype, result.values};
    std::normal_distribution<double> normal;
    for (double& value : grad.values) value = normal(random);
    out.grads.push_back(flows && grads.size() < outputs ? std::optional(grad) : std::nullopt);
    grads.push_back(out.grads.back() ? to_tensor(grad) : Tensor());
  }
  const WaitAtEnd wait;
  MadeCall call(subject, subject.tensors(), subject.output_tensors(), grads);
  subject.op()->def.gradient(call);
  wait_for_work();
  for (const Tensor& each : call.gradients()) out.want.push_back(each ? std::optional(read(each)) : std::nullopt);
  return out;
}

// Further results are often statistics without a gradient.
BackwardSubject whole_gradients(const Subject& subject, Random& random) {
  try {
    return whole_gradients(subject, subject.outputs().size(), random);
  } catch (const Error&) {
    return whole_gradients(subject, 1, random);
  }
}

// Returns the layout of the gradient of a result; with `is_pending`, partial along axes that replicate the result.
Layout layout_of_gradient(const Layout& result, bool is_pending) {
  Layout settled = layout::gradient_layout(result);
  if (!is_pending) return settled;
  layout::LayoutParts parts = settled.parts();
  for (std::int32_t axis = 0; axis < result.mesh().ndim(); ++axis) {
    const auto uses = [axis](const auto& each) { return each.by.axis == axis; };
    bool is_used = std::ranges::any_of(result.partials(), uses);
    for (int d = 0; d < result.ndim(); ++d) is_used |= std::ranges::any_of(result.shardings(d), uses);
    if (!is_used) parts.partials.push_back({{axis, 1, result.mesh().axis(axis).size}, Reduction::kSum});
  }
  return Layout::create(result.mesh(), std::move(parts));
}

// Returns "" if the gradient can take the layout of the input without communication: the same sharding or less, and
// partial sums only where the input is replicated.
std::string misplaced(const Layout& gradient, const Layout& input) {
  for (const layout::PartialAxis& partial : gradient.partials()) {
    const auto uses = [&](const auto& each) { return each.by.axis == partial.by.axis; };
    bool is_sharded = false;
    for (int d = 0; d < input.ndim(); ++d) is_sharded |= std::ranges::any_of(input.shardings(d), uses);
    if (is_sharded || !layout::can_mix(partial.reduction, Reduction::kSum)) {
      return concat("is ", gradient.placements_text(), " for an input ", input.placements_text());
    }
  }
  for (int d = 0; d < gradient.ndim(); ++d) {
    const auto have = gradient.shardings(d);
    const auto want = input.shardings(d);
    if (have.size() > want.size() || !std::ranges::equal(have, want.first(have.size()))) {
      return concat("is ", gradient.placements_text(), " for an input ", input.placements_text());
    }
  }
  return {};
}

// The backward pass is linear in the gradient, so that partial sums pass through it without moves. Exceptions: it reads
// values that are partial, or ranks cooperate in it.
bool may_move(const Subject& subject, const Combination& combination, bool is_pending) {
  if (combination.is_partial() || (is_pending && subject.op()->def.cooperation != nullptr)) return true;
  for (const Layout& output : combination.outputs) {
    for (const layout::PartialAxis& partial : output.partials()) {
      if (!layout::can_mix(partial.reduction, Reduction::kSum)) return true;
    }
  }
  return false;
}

// Returns the error in the gradients of a combination, or "".
std::string check_combination(const BackwardSubject& backward, const Combination& combination, bool is_pending,
                              Validation& out) {
  const Subject& subject = backward.subject;
  const std::vector<Parts> sharded_inputs = subject.sharded_inputs(combination, 0);
  SimulatedShards shards(combination.mesh());
  std::vector<Parts> results =
      call_on_ranks(subject.op(), sharded_inputs, subject.attributes(), subject.claims(combination));
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  std::vector<Tensor> grads;
  for (const Parts& each : sharded_inputs) inputs.push_back(each.layout ? shards.add(each) : Tensor());
  for (std::size_t o = 0; o < results.size(); ++o) {
    const Layout layout = layout_of_gradient(combination.outputs[o], is_pending);
    grads.push_back(backward.grads[o] ? shards.add(sharding(*backward.grads[o], layout)) : Tensor());
    outputs.push_back(shards.add(std::move(results[o])));
  }
  MadeCall call(subject, inputs, outputs, grads);
  subject.op()->def.gradient(call);
  wait_for_work();
  out.local_calls += shards.local_calls();
  std::vector<std::string> moves = shards.moves();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& got = call.gradients()[i];
    if (!subject.is_differentiable(i) || (!got && !backward.want[i])) continue;
    if (!got || !backward.want[i])
      return concat("gradient of input ", i, " exists only for the global tensor or only for the shards");
    const Layout layout = got.has_layout() ? got.layout() : Layout::replicated(combination.mesh());
    const std::string wrong = difference(shards.whole_of(got), *backward.want[i], subject.tolerance() * 10, layout);
    if (!wrong.empty()) return concat("gradient of input ", i, " ", describe(got), ": ", wrong);
    const std::string place = misplaced(layout, combination.inputs[i]);
    if (!place.empty()) moves.push_back(concat("gradient of input ", i, " ", place));
  }
  out.moves += static_cast<std::int64_t>(moves.size());
  if (!moves.empty() && out.notes.empty()) out.notes.push_back(moves[0]);
  if (!moves.empty() && !may_move(subject, combination, is_pending) && out.stuck.size() < kMaxStuck) {
    out.stuck.push_back(
        concat(subject.text(), " on ", combination.text(), is_pending ? ", pending" : "", ": ", moves[0]));
  }
  return {};
}

void check_on(const BackwardSubject& backward, const Mesh& mesh, const ValidatorOptions& options, Random& random,
              Validation& out) {
  const Combinations found = admitted_combinations(backward.subject, mesh, options.most, random);
  out.admitted += found.admitted;
  for (const Combination& combination : found.list) {
    if (out.wrong.size() >= options.max_wrong) return;
    out.tried += 1;
    out.partial += combination.is_partial() ? 1 : 0;
    for (const bool is_pending : {false, true}) {
      std::string wrong;
      try {
        wrong = check_combination(backward, combination, is_pending, out);
      } catch (const Error& error) {
        wrong = error.message();
      }
      if (wrong.empty()) continue;
      out.wrong.push_back(
          concat(backward.subject.text(), " on ", combination.text(), is_pending ? ", pending" : "", ": ", wrong));
      break;
    }
  }
}

}  // namespace

Validation validate_backward(const OpCaseInfo& info, const ValidatorOptions& options) {
  Validation out;
  const tensor::Operator op = tensor::find_op(info.op);
  if (op->def.gradient == nullptr || op->def.rule == nullptr) return out;
  if (!info.samples) return out;
  Random random(options.seed);
  for (const OpSample& sample : first_samples(info, options, random)) {
    if (sample.inputs.empty() || out.wrong.size() >= options.max_wrong) continue;
    try {
      const Subject subject(info, sample);
      bool is_asked = false;
      for (std::size_t i = 0; i < subject.inputs().size(); ++i) is_asked |= subject.is_differentiable(i);
      if (!is_asked) continue;
      const BackwardSubject backward = whole_gradients(subject, random);
      for (const Mesh& mesh : validator_meshes()) check_on(backward, mesh, options, random, out);
    } catch (const Error& error) {
      out.wrong.push_back(
          concat(info.op, " ", sample.attributes.ref().text(), " ", sample.note, ": ", error.message()));
    }
  }
  return out;
}

}  // namespace tessera::ops::testing
