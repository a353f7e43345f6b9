#include "tessera/nn/optim/sgd.h"

namespace tessera::nn {
namespace {

std::vector<std::string> state_names(const SgdOptions& options) {
  if (options.momentum == 0) return {};
  return {"first"};
}

}  // namespace

Sgd::Sgd(std::vector<ParameterGroup> groups, const SgdOptions& options)
    : Optimizer({.name = "Sgd",
                 .learning_rate = options.learning_rate,
                 .weight_decay = options.weight_decay,
                 .state_names = state_names(options)},
                std::move(groups)),
      options_(options) {}

void Sgd::update(const Group& group, std::span<const Tensor> gradients, const ops::StepScalars& scalars) {
  const std::span<const Tensor> momenta = group.state.empty() ? std::span<const Tensor>() : group.state[0];
  ops::sgd_(group.parameters, gradients, momenta, scalars,
            {.momentum = options_.momentum, .weight_decay = group.weight_decay, .is_nesterov = options_.is_nesterov});
}

}  // namespace tessera::nn
