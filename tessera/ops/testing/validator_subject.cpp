#include "tessera/ops/testing/validator_subject.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.h"

namespace tessera::ops::testing {

using layout::Layout;
using tessera::detail::concat;

std::string Combination::text() const {
  const auto list = [](const std::vector<Layout>& layouts) {
    std::string out;
    for (const Layout& each : layouts) {
      out += concat(out.empty() ? "" : ", ", each ? each.placements_text() : std::string("none"));
    }
    return out;
  };
  return concat(mesh().text(), ": ", list(inputs), " -> ", list(outputs));
}

bool Combination::is_partial() const {
  return std::ranges::any_of(inputs, [](const Layout& each) { return each && !each.partials().empty(); });
}

const layout::Mesh& Combination::mesh() const { return outputs[0].mesh(); }

Subject::Subject(const OpCaseInfo& info, const OpSample& sample)
    : info_(&info), sample_(&sample), op_(tensor::find_op(info.op)) {
  try {
    make(DType::kF64, 1);
  } catch (const Error&) {
    make(DType::kF32, 1);
  }
}

void Subject::make(DType floating, double sign) {
  floating_ = floating;
  tolerance_ = floating == DType::kF64 ? std::max(1e-9, info_->tolerance * 1e-4) : std::max(1e-4, info_->tolerance);
  inputs_.clear();
  tensors_.clear();
  for (const SampleInput& input : sample_->inputs) {
    const DType dtype = input.dtype.value_or(floating);
    Whole whole{input.value.shape, dtype, input.value.values};
    if (!input.dtype) {
      for (double& value : whole.values) value *= sign;
    }
    if (input.is_absent) whole = {};
    tensors_.push_back(input.is_absent ? Tensor() : to_tensor(whole));
    if (!input.is_absent) whole = read(tensors_.back());
    inputs_.push_back(std::move(whole));
  }
  call_whole();
}

void Subject::call_whole() {
  output_tensors_.assign(static_cast<std::size_t>(sample_->outputs), Tensor());
  if (tensors_.empty()) {
    output_tensors_ = {tensor::call_on(device::Device::get("host"), op_, attributes())};
  } else {
    tensor::call_into({op_, tensors_, attributes(), output_tensors_});
  }
  wait_for_work();
  outputs_.clear();
  output_shapes_.clear();
  for (const Tensor& out : output_tensors_) {
    outputs_.push_back(read(out));
    output_shapes_.push_back(out.shape());
  }
  if (tensors_.empty() || op_->def.rule == nullptr) return;
  // Rules receive tensors with layouts; only their shape and dtype are available.
  const layout::Mesh one = layout::Mesh::create({{"x", 1}});
  std::vector<Tensor> sharded;
  for (const Tensor& tensor : tensors_) {
    sharded.push_back(tensor ? Tensor::sharded(tensor.shape(), tensor.dtype(), Layout::replicated(one), tensor)
                             : Tensor());
  }
  std::vector<Tensor> none(outputs_.size());
  rule_ = rule_of({op_, sharded, attributes(), none});
}

bool Subject::is_differentiable(std::size_t input) const {
  const SampleInput& it = sample_->inputs[input];
  return !it.is_absent && it.is_differentiable && !it.dtype;
}

std::string Subject::text() const {
  std::vector<Tensor> none(outputs_.size());
  const tensor::Call call{op_, tensors_, attributes(), none};
  return sample_->note.empty() ? call.text() : concat(call.text(), " (", sample_->note, ")");
}

std::optional<Subject> Subject::negated() const {
  if (std::ranges::none_of(sample_->inputs,
                           [](const SampleInput& input) { return !input.dtype && !input.is_absent; })) {
    return std::nullopt;
  }
  Subject out;
  out.info_ = info_;
  out.sample_ = sample_;
  out.op_ = op_;
  try {
    out.make(floating_, -1);
  } catch (const Error&) {
    return std::nullopt;
  }
  for (const Whole& output : out.outputs_) {  // outside the domain of the function, nothing is claimed
    if (std::ranges::any_of(output.values, [](double value) { return std::isnan(value); })) return std::nullopt;
  }
  return out;
}

std::optional<Combination> Subject::admitted(std::vector<Layout> inputs, const layout::Mesh& mesh) const {
  std::vector<Tensor> none(outputs_.size());
  layout::Propagation found = propagate_call(*rule_, {op_, tensors_, attributes(), none}, inputs, output_shapes_, mesh);
  if (!found.is_match()) return std::nullopt;
  return Combination{std::move(inputs), std::move(found.outputs)};
}

std::vector<ClaimedOutput> Subject::claims(const Combination& combination) const {
  std::vector<ClaimedOutput> out;
  for (std::size_t o = 0; o < outputs_.size(); ++o) {
    out.push_back({outputs_[o].shape, outputs_[o].dtype, combination.outputs[o]});
  }
  return out;
}

std::vector<Parts> Subject::sharded_inputs(const Combination& combination, int style) const {
  std::vector<Parts> out;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    out.push_back(combination.inputs[i] ? sharding(inputs_[i], combination.inputs[i], style) : Parts());
  }
  return out;
}

}  // namespace tessera::ops::testing
