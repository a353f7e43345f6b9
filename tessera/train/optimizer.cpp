#include "tessera/train/optimizer.h"

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/memory/label.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/update/update.h"

namespace tessera::train {
namespace {

std::vector<Tensor> zeros_like(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> out;
  for (const Tensor& tensor : tensors) out.push_back(ops::zeros_like(tensor.detach()));
  return out;
}

}  // namespace

Optimizer::Optimizer(const OptimizerConfig& config, std::span<const Parameter> parameters) : config_(config) {
  const bool is_adamw = config.kind == "adamw";
  TESSERA_CHECK(is_adamw || config.kind == "sgd", "optimizer.kind: must be adamw or sgd, got '", config.kind, "'");
  const memory::Label label("optimizer");
  for (const bool decays : {true, false}) {
    ParameterGroup group{.weight_decay = decays ? config.weight_decay : 0};
    for (const Parameter& parameter : parameters) {
      if (row_of(parameter.kind).decays == decays) group.parameters.push_back(parameter.tensor);
    }
    if (group.parameters.empty()) continue;
    if (is_adamw || config.momentum != 0) group.first = zeros_like(group.parameters);
    if (is_adamw) {
      group.second = zeros_like(group.parameters);
      group.steps = ops::zeros({}, {.dtype = DType::kI64});
    }
    groups_.push_back(std::move(group));
  }
}

void Optimizer::step(double learning_rate, const Tensor& clip_factor) {
  const memory::Label label("optimizer");
  step({.learning_rate = ops::full({}, learning_rate), .clip_factor = clip_factor});
}

void Optimizer::step(const ops::StepScalars& scalars) {
  const autograd::NoGrad no_grad;
  const memory::Label label("optimizer");
  for (ParameterGroup& group : groups_) {
    std::vector<Tensor> gradients;
    for (const Tensor& parameter : group.parameters) gradients.push_back(autograd::grad(parameter));
    if (config_.kind == "adamw") {
      ops::adamw_(
          group.parameters, gradients, group.first, group.second, group.steps, scalars,
          {.beta1 = config_.beta1, .beta2 = config_.beta2, .eps = config_.eps, .weight_decay = group.weight_decay});
    } else {
      ops::sgd_(group.parameters, gradients, group.first, scalars,
                {.momentum = config_.momentum, .weight_decay = group.weight_decay});
    }
  }
}

std::vector<std::pair<std::string, Tensor>> Optimizer::state(std::span<const Parameter> parameters) const {
  const auto name_of = [&](const Tensor& tensor) -> const std::string& {
    for (const Parameter& parameter : parameters) {
      if (parameter.tensor.is_same(tensor)) return parameter.name;
    }
    TESSERA_THROW(InvalidArgument, "optimizer: a parameter is not one of the ", parameters.size(), " given");
  };
  std::vector<std::pair<std::string, Tensor>> out;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const ParameterGroup& group = groups_[g];
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      const std::string& name = name_of(group.parameters[i]);
      if (!group.first.empty()) out.emplace_back("first/" + name, group.first[i]);
      if (!group.second.empty()) out.emplace_back("second/" + name, group.second[i]);
    }
    if (group.steps) out.emplace_back("steps/" + std::to_string(g), group.steps);
  }
  return out;
}

std::int64_t Optimizer::nbytes() const {
  std::size_t nbytes = 0;
  for (const ParameterGroup& group : groups_) {
    for (const Tensor& tensor : group.first) nbytes += tensor.local().nbytes();
    for (const Tensor& tensor : group.second) nbytes += tensor.local().nbytes();
    if (group.steps) nbytes += group.steps.nbytes();
  }
  return static_cast<std::int64_t>(nbytes);
}

}  // namespace tessera::train
