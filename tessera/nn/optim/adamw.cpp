#include "tessera/nn/optim/adamw.h"

namespace tessera::nn {

AdamW::AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& options)
    : Optimizer({.name = "AdamW",
                 .learning_rate = options.learning_rate,
                 .weight_decay = options.weight_decay,
                 .state_names = {"first", "second"},
                 .counts_steps = true},
                std::move(groups)),
      options_(options) {}

void AdamW::update(const Group& group, std::span<const Tensor> gradients, const ops::StepScalars& scalars) {
  ops::adamw_(
      group.parameters, gradients, group.state[0], group.state[1], group.steps, scalars,
      {.beta1 = options_.beta1, .beta2 = options_.beta2, .eps = options_.eps, .weight_decay = group.weight_decay});
}

}  // namespace tessera::nn
