// What a step had in hand, by name, for somebody who looks into it or holds it against another implementation:
//
//   DIRECTORY/dump-120/rank-0.safetensors    parameters/NAME, gradients/NAME, optimizer/first/NAME, ...
//
// This rank's parts, of the moment when gradients are settled and nothing is updated yet; as texts the step's loss,
// norm and learning rate, and layout/NAME of what is cut.
#pragma once

#include <string>

#include "tessera/train/trainer.h"

namespace tessera::train::detail {

/// Writes it, from Trainer::before_update(); the path. IoError.
std::string write_step(const std::string& directory, int rank, const Trainer& trainer, const StepReport& report);

}  // namespace tessera::train::detail
