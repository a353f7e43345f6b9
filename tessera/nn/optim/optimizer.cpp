#include "tessera/nn/optim/optimizer.h"

#include <cmath>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/memory/label.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/pointwise.h"

namespace tessera::nn {
namespace {

void check_rate(const std::string& name, double rate) {
  TESSERA_CHECK(std::isfinite(rate) && rate >= 0, name, ": learning rate must be finite and at least 0, got ", rate);
}

void check_parameters(const std::string& name, const std::vector<ParameterGroup>& groups) {
  std::vector<Tensor> seen;
  for (const ParameterGroup& group : groups) {
    for (const Tensor& parameter : group.parameters) {
      TESSERA_CHECK(parameter, name, ": parameter ", seen.size(), " must be a tensor, got an empty handle");
      TESSERA_CHECK(autograd::is_leaf(parameter), name, ": parameter ", seen.size(), ", ", to_string(parameter.dtype()),
                    to_string(parameter.shape()), ", must be a leaf, got the result of an operator");
      for (const Tensor& other : seen) {
        TESSERA_CHECK(!other.is_same(parameter), name, ": parameter ", seen.size(), ", ", to_string(parameter.dtype()),
                      to_string(parameter.shape()), ", must be given once; remove it from the other group");
      }
      seen.push_back(parameter);
    }
  }
}

}  // namespace

Optimizer::Optimizer(Settings settings, std::vector<ParameterGroup> groups)
    : settings_(std::move(settings)), learning_rate_(settings_.learning_rate) {
  check_rate(settings_.name, learning_rate_);
  check_parameters(settings_.name, groups);
  const memory::Label label("optimizer");
  for (ParameterGroup& given : groups) {
    Group group{.weight_decay = given.weight_decay.value_or(settings_.weight_decay),
                .learning_rate_factor = given.learning_rate_factor};
    for (Tensor& parameter : given.parameters) {
      if (autograd::requires_grad(parameter)) group.parameters.push_back(std::move(parameter));
    }
    if (group.parameters.empty()) continue;
    for (std::size_t i = 0; i < settings_.state_names.size(); ++i) {
      std::vector<Tensor>& state = group.state.emplace_back();
      for (const Tensor& parameter : group.parameters) state.push_back(ops::zeros_like(parameter.detach()));
    }
    const device::Device& device = group.parameters.front().device();
    if (settings_.counts_steps) group.steps = ops::zeros({}, {.dtype = DType::kI64, .device = device});
    groups_.push_back(std::move(group));
  }
}

void Optimizer::step(const StepOptions& options) {
  const autograd::NoGrad no_grad;
  const memory::Label label("optimizer");
  std::vector<std::vector<Tensor>> gradients;
  std::size_t number = 0;
  for (const Group& group : groups_) {
    std::vector<Tensor>& of_group = gradients.emplace_back();
    for (const Tensor& parameter : group.parameters) {
      of_group.push_back(autograd::grad(parameter));
      TESSERA_CHECK(of_group.back(), settings_.name, ": parameter ", number, ", ", to_string(parameter.dtype()),
                    to_string(parameter.shape()), ", must have a gradient; call backward() first, or freeze it");
      ++number;
    }
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    ops::StepScalars scalars = options.scalars;
    const ops::CreateOptions there{.device = group.parameters.front().device()};
    if (!scalars.learning_rate) {
      scalars.learning_rate = ops::full({}, learning_rate_ * group.learning_rate_factor, there);
    } else if (group.learning_rate_factor != 1) {
      scalars.learning_rate = ops::mul(scalars.learning_rate, group.learning_rate_factor);
    }
    update(group, gradients[g], scalars);
  }
  if (!options.keeps_gradients) zero_grad();
}

void Optimizer::zero_grad() const {
  for (const Group& group : groups_) {
    for (const Tensor& parameter : group.parameters) autograd::set_grad(parameter, {});
  }
}

void Optimizer::set_learning_rate(double learning_rate) {
  check_rate(settings_.name, learning_rate);
  learning_rate_ = learning_rate;
}

std::vector<NamedTensor> Optimizer::state(std::span<const NamedTensor> parameters) const {
  const auto name_of = [&](const Tensor& tensor) -> const std::string& {
    for (const NamedTensor& each : parameters) {
      if (each.second.is_same(tensor)) return each.first;
    }
    TESSERA_THROW(InvalidArgument, settings_.name, ": state requires a name for each parameter, got none for ",
                  to_string(tensor.dtype()), to_string(tensor.shape()));
  };
  std::vector<NamedTensor> out;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      const std::string& name = name_of(group.parameters[i]);
      for (std::size_t s = 0; s < group.state.size(); ++s) {
        out.emplace_back(settings_.state_names[s] + "/" + name, group.state[s][i]);
      }
    }
    if (group.steps) out.emplace_back("steps/" + std::to_string(g), group.steps);
  }
  return out;
}

std::int64_t Optimizer::nbytes() const {
  std::size_t nbytes = 0;
  for (const Group& group : groups_) {
    for (const std::vector<Tensor>& state : group.state) {
      for (const Tensor& tensor : state) nbytes += tensor.local().nbytes();
    }
    if (group.steps) nbytes += group.steps.nbytes();
  }
  return static_cast<std::int64_t>(nbytes);
}

Tensor clip_grad_norm(std::span<const Tensor> parameters, double max_norm) {
  const autograd::NoGrad no_grad;
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters) {
    if (Tensor gradient = autograd::grad(parameter)) gradients.push_back(std::move(gradient));
  }
  TESSERA_CHECK(!gradients.empty(), "clip_grad_norm: at least one of the ", parameters.size(),
                " parameters must have a gradient; call backward() first");
  return ops::clip_grad_norm_(gradients, max_norm);
}

}  // namespace tessera::nn
