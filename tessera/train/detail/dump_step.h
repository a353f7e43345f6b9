// Dump of the tensors of a step by name, for inspection or for comparison with another implementation:
//
//   DIRECTORY/dump-120/rank-0.safetensors    parameters/NAME, gradients/NAME, optimizer/first/NAME, ...
//                                            activations/NAME, activation_gradients/NAME
//
// It holds the shards of this rank after gradients are reduced and before the update. The metadata holds loss, norm and
// learning rate of the step, the micro-batch of the activations ("0 of 4"), and layout/NAME of sharded tensors.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/train/trainer.h"

namespace tessera::train::detail {

/// Arguments of the Trainer::before_update() callback.
struct SeenStep {
  const StepReport& report;
  const StepActivations& activations;
  std::int64_t micro_batches;  // micro-batches of the step
};
/// Writes the dump from that callback. Returns the path. Throws IoError.
std::string write_step(const std::string& directory, int rank, const Trainer& trainer, const SeenStep& seen);

}  // namespace tessera::train::detail
