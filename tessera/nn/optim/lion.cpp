#include "tessera/nn/optim/lion.h"

namespace tessera::nn {

Lion::Lion(std::vector<ParameterGroup> groups, const LionOptions& options)
    : Optimizer({.name = "Lion",
                 .learning_rate = options.learning_rate,
                 .weight_decay = options.weight_decay,
                 .state_names = {"first"}},
                std::move(groups)),
      options_(options) {}

void Lion::update(const Group& group, std::span<const Tensor> gradients, const ops::StepScalars& scalars) {
  ops::lion_(group.parameters, gradients, group.state[0], scalars,
             {.beta1 = options_.beta1, .beta2 = options_.beta2, .weight_decay = group.weight_decay});
}

}  // namespace tessera::nn
