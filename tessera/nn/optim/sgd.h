// SGD: gradient descent, with momentum if it is not 0. Each group is updated in one launch.
#pragma once

#include "tessera/nn/optim/optimizer.h"

namespace tessera::nn {

/// Options of Sgd.
struct SgdOptions {
  double learning_rate = 1e-3;  ///< Learning rate.
  double momentum = 0;          ///< Factor of the running sum of gradients.
  double weight_decay = 0;      ///< Factor of the parameter that is added to its gradient.
  bool is_nesterov = false;     ///< True if the gradient is taken one step ahead along the momentum.
};

/// Stochastic gradient descent.
class TESSERA_API Sgd final : public Optimizer {
 public:
  /// Creates the state of these parameters.
  explicit Sgd(std::vector<Tensor> parameters, const SgdOptions& options = {})
      : Sgd(std::vector{ParameterGroup{std::move(parameters)}}, options) {}
  /// Creates the state of these groups.
  explicit Sgd(std::vector<ParameterGroup> groups, const SgdOptions& options = {});

 private:
  void update(const Group& group, std::span<const Tensor> gradients, const ops::StepScalars& scalars) override;
  SgdOptions options_;
};

}  // namespace tessera::nn
