// Bitwise results of a run on one rank, to compare replayed steps with eager ones.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/ops/create/generator.h"
#include "tessera/train/config.h"
#include "tessera/train/trainer.h"

namespace tessera::train::testing {

/// Results of one rank. A step depends on the optimizer state of earlier steps, so the weights after many steps cover
/// the state too.
struct ReplayResults {
  std::vector<double> losses;  ///< Losses by step.
  std::vector<double> norms;   ///< Gradient norms before clipping.
  std::vector<double> rates;
  std::vector<StepEnd> ends;   ///< Results of the steps.
  std::vector<float> weights;  ///< Weights of this rank at the end.
  ops::GeneratorState random;  ///< State of its generator at the end.
};
/// Returns the shards of this rank of all parameters.
std::vector<float> own_weights(const Trainer& trainer);
/// Takes `steps` steps, all but the last one with `ahead`. Calls `between` after each.
ReplayResults seen_steps(Trainer& trainer, std::int64_t steps, const std::function<void(Trainer&)>& between = {},
                         Ahead ahead = Ahead::kNone);
/// Takes config.train.steps steps on synthetic samples, on every rank of the world.
ReplayResults seen_run(const Config& config, const std::function<void(Trainer&)>& between = {},
                       Ahead ahead = Ahead::kNone);
/// Returns the first difference: "step 7: loss 2.5 instead of 2.25"; empty if none.
std::string difference(const ReplayResults& got, const ReplayResults& want);

}  // namespace tessera::train::testing
