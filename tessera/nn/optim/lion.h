// Lion: steps along the sign of an average of the mean gradient and the gradient. It keeps one state per parameter,
// half as many as AdamW. Learning rates are 3 to 10 times lower than those of AdamW, and weight decay as much higher.
#pragma once

#include "tessera/nn/optim/optimizer.h"

namespace tessera::nn {

/// Options of Lion.
struct LionOptions {
  double learning_rate = 1e-4;  ///< Distance that each element moves in a step.
  double beta1 = 0.9;           ///< Weight of the mean in the direction of the step.
  double beta2 = 0.99;          ///< Decay of the mean of gradients.
  double weight_decay = 0;      ///< Each step reduces parameters by this times the learning rate.
};

/// Lion.
class TESSERA_API Lion final : public Optimizer {
 public:
  /// Creates the state of these parameters.
  explicit Lion(std::vector<Tensor> parameters, const LionOptions& options = {})
      : Lion(std::vector{ParameterGroup{std::move(parameters)}}, options) {}
  /// Creates the state of these groups.
  explicit Lion(std::vector<ParameterGroup> groups, const LionOptions& options = {});

 private:
  void update(const Group& group, std::span<const Tensor> gradients, const ops::StepScalars& scalars) override;
  LionOptions options_;
};

}  // namespace tessera::nn
