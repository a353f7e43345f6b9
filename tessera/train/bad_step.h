// A step that the policy for bad ones stopped or skipped, kept for a look: what it was about to do to which parameters,
// because of which samples.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/train/gather.h"
#include "tessera/train/trainer.h"

namespace tessera::train {

/// As a rank saw it, before its gradients go. Parameters are those before the step.
struct BadStep {
  StepReport report;                      ///< whose loss or gradient norm is not finite, or a spike
  std::vector<std::uint64_t> samples;     ///< that this rank read for it, by number
  std::span<const Parameter> parameters;  ///< with their gradients
};

/// Writes DIRECTORY/bad-step-N/rank-R.safetensors: this rank's parts of all parameters ("parameters/NAME") and of their
/// gradients ("gradients/NAME"); how each is cut, the numbers of the step and its samples are texts in it. Its path.
/// `directory` must exist. Throws IoError.
TESSERA_API std::string write_bad_step(const std::string& directory, int rank, const BadStep& step);

}  // namespace tessera::train
