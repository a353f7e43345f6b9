// AdamW: adaptive moments with decoupled weight decay. Each group is updated in one launch.
#pragma once

#include "tessera/nn/optim/optimizer.h"

namespace tessera::nn {

/// Options of AdamW.
struct AdamWOptions {
  double learning_rate = 1e-3;  ///< Learning rate.
  double beta1 = 0.9;           ///< Decay of the mean of gradients.
  double beta2 = 0.999;         ///< Decay of the mean of squared gradients.
  double eps = 1e-8;            ///< Added to the root of the mean of squares.
  double weight_decay = 0.01;   ///< Each step reduces parameters by this times the learning rate.
};

/// AdamW.
class TESSERA_API AdamW final : public Optimizer {
 public:
  /// Creates the state of these parameters.
  explicit AdamW(std::vector<Tensor> parameters, const AdamWOptions& options = {})
      : AdamW(std::vector{ParameterGroup{std::move(parameters)}}, options) {}
  /// Creates the state of these groups.
  explicit AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& options = {});

 private:
  void update(const Group& group, std::span<const Tensor> gradients, const ops::StepScalars& scalars) override;
  AdamWOptions options_;
};

}  // namespace tessera::nn
