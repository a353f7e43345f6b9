// What the modules of a model give in one pass, and the gradients that come back to them, kept for somebody who looks
// at the step. Keeping them holds memory that is otherwise free again at once; nothing is computed in another way.
//
//   Activations activations;
//   model.set_watch(activations.watch());
//   backward(model.loss(...));
//   activations.kept();
#pragma once

#include <memory>
#include <set>
#include <string>

#include "tessera/train/model.h"
#include "tessera/train/trainer.h"

namespace tessera::train::detail {

/// See the head of this file. For one thread.
class Activations {
 public:
  /// For a model; may outlive this. Of what is computed again for gradients the first is kept.
  [[nodiscard]] Watch watch();
  /// Outputs in the order in which they were computed, then gradients in the order in which they came.
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
