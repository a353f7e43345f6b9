// Dump of a step that the policy for bad steps stopped or skipped, for inspection: the parameters, the update they were
// about to receive, and the samples that caused it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/nn/optim/optimizer.h"
#include "tessera/train/trainer.h"

namespace tessera::train {

/// A bad step as one rank saw it, before its gradients are freed. Parameters have their values from before the step.
struct BadStep {
  StepReport report;                        ///< Report with a loss or gradient norm that is not finite or a spike.
  std::vector<std::uint64_t> samples;       ///< Numbers of the samples that this rank read for the step.
  std::vector<nn::NamedTensor> parameters;  ///< Parameters with their gradients.
};

/// Writes DIRECTORY/bad-step-N/rank-R.safetensors and returns its path. The file holds the shards of this rank of all
/// parameters ("parameters/NAME") and gradients ("gradients/NAME"). Its metadata holds their layouts, the values of the
/// step report and the samples. `directory` must exist. Throws IoError.
TESSERA_API std::string write_bad_step(const std::string& directory, int rank, const BadStep& step);

}  // namespace tessera::train
