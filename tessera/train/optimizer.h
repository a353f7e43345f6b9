// Updates parameters by AdamW or SGD, with one launch for each of two groups: parameters with weight decay (matrices)
// and without (norms and the embedding). The state is f32 and has the layouts of the parameters.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/ops/update/update.h"
#include "tessera/tensor/tensor.h"
#include "tessera/train/config.h"
#include "tessera/train/parameter.h"

namespace tessera::train {

/// AdamW or SGD with its state.
class TESSERA_API Optimizer {
 public:
  /// Creates the state for `parameters`.
  Optimizer(const OptimizerConfig& config, std::span<const Parameter> parameters);

  /// Updates the parameters by their gradients, which must be reduced. Gradients are multiplied by `clip_factor`; an
  /// empty tensor means 1.
  void step(double learning_rate, const Tensor& clip_factor);
  /// Updates the parameters with values that change from step to step in tensors, which are read when the work runs.
  void step(const ops::StepScalars& scalars);
  /// Returns the bytes of the state of this rank.
  [[nodiscard]] std::int64_t nbytes() const;
  /// Returns the state tensors themselves, named by these parameters: "first/NAME", "second/NAME", "steps/0".
  [[nodiscard]] std::vector<std::pair<std::string, Tensor>> state(std::span<const Parameter> parameters) const;

 private:
  struct ParameterGroup {
    double weight_decay = 0;
    std::vector<Tensor> parameters = {};
    std::vector<Tensor> first = {};   // adamw: mean of gradients; sgd: momenta, if used
    std::vector<Tensor> second = {};  // adamw: mean of squared gradients
    Tensor steps = {};                // adamw: number of steps so far
  };
  OptimizerConfig config_;
  std::vector<ParameterGroup> groups_;
};

}  // namespace tessera::train
