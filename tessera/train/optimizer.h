// What parameters are updated by: AdamW or gradient descent, one launch for each of two groups: parameters that decay
// (matrices) and those that do not (norms and the embedding). State is f32 and lies as its parameter does.
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
#include "tessera/train/gather.h"

namespace tessera::train {

/// See the head of this file.
class TESSERA_API Optimizer {
 public:
  /// For these parameters.
  Optimizer(const OptimizerConfig& config, std::span<const Parameter> parameters);

  /// Takes a step along the gradients of the parameters, which are settled. `clip_factor`: what they are multiplied
  /// with; none: 1.
  void step(double learning_rate, const Tensor& clip_factor);
  /// Likewise, with all that changes from step to step in tensors, read when the work runs.
  void step(const ops::StepScalars& scalars);
  /// Of this rank's state.
  [[nodiscard]] std::int64_t nbytes() const;
  /// Its state, the tensors themselves, named after these parameters: "first/NAME", "second/NAME", "steps/0".
  [[nodiscard]] std::vector<std::pair<std::string, Tensor>> state(std::span<const Parameter> parameters) const;

 private:
  struct Group {
    double weight_decay = 0;
    std::vector<Tensor> parameters = {};
    std::vector<Tensor> first = {};   // adamw: mean of gradients; sgd: momenta, where there are some
    std::vector<Tensor> second = {};  // adamw: mean of their squares
    Tensor steps = {};                // adamw: done so far
  };
  OptimizerConfig config_;
  std::vector<Group> groups_;
};

}  // namespace tessera::train
