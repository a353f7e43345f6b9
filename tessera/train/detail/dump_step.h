// What a step had in hand, by name, for somebody who looks into it or holds it against another implementation:
//
//   DIRECTORY/dump-120/rank-0.safetensors    parameters/NAME, gradients/NAME, optimizer/first/NAME, ...
//                                            activations/NAME, activation_gradients/NAME
//
// This rank's parts, of the moment when gradients are settled and nothing is updated yet; as texts the step's loss,
// norm and learning rate, which micro-batch the activations are of ("0 of 4"), and layout/NAME of what is cut.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/train/trainer.h"

namespace tessera::train::detail {

/// What Trainer::before_update() tells of a step.
struct SeenStep {
  const StepReport& report;
  const StepActivations& activations;
  std::int64_t micro_batches;  // of the step
};
/// Writes it, from there; the path. IoError.
std::string write_step(const std::string& directory, int rank, const Trainer& trainer, const SeenStep& seen);

}  // namespace tessera::train::detail
