// Keeps the outputs of the modules of a model in one pass, and their gradients, for inspection of a step. This holds
// memory that would otherwise be freed; the computation does not change.
//
//   Activations activations;
//   model.set_observer(activations.observer());
//   backward(model.loss(...));
//   activations.kept();
#pragma once

#include <memory>
#include <set>
#include <string>

#include "tessera/nn/module.h"
#include "tessera/train/trainer.h"

namespace tessera::train::detail {

/// Activations and gradients of one pass. Not thread-safe.
class Activations {
 public:
  /// Returns an observer for a model, which may outlive this object. Of recomputed outputs, the first one is kept.
  [[nodiscard]] nn::ModuleObserver observer();
  /// Returns outputs in the order of computation, then gradients in the order of arrival.
  [[nodiscard]] StepActivations kept() const;

 private:
  struct Kept {
    std::set<std::string> modules;
    StepActivations outputs;
    StepActivations gradients;
  };
  std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
};

}  // namespace tessera::train::detail
