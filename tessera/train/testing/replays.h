// What a rank sees of a run, to the bit: what replayed steps are held against steps that are asked for call by call.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/ops/create/generator.h"
#include "tessera/train/config.h"
#include "tessera/train/trainer.h"

namespace tessera::train::testing {

/// Of one rank. A step depends on the state that the steps before it left to the optimizer, so that weights after many
/// steps tell of it too.
struct Seen {
  std::vector<double> losses;  ///< by step
  std::vector<double> norms;   ///< of gradients, before clipping
  std::vector<double> rates;   ///< learning rates
  std::vector<StepEnd> ends;   ///< what became of the steps
  std::vector<float> weights;  ///< this rank's, at the end
  ops::GeneratorState random;  ///< where its generator stands at the end
};
/// This rank's parts of all parameters.
std::vector<float> own_weights(const Trainer& trainer);
/// Takes config.train.steps steps on synthetic samples, as every rank of the world does; `between` is called after
/// each.
Seen seen_run(const Config& config, const std::function<void(Trainer&)>& between = {});
/// What differs between runs: "step 7: loss 2.5 instead of 2.25"; empty: nothing.
std::string difference(const Seen& got, const Seen& want);

}  // namespace tessera::train::testing
