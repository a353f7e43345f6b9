// Progress of a long phase of a run: tokenizing, evaluating, sampling, verifying a checkpoint. The phase regularly
// calls a function that may show the progress (PhaseProgress in progress.h), or throw to end the phase.
//
//   (void)verify_checkpoint(path, CheckDepth::kEverything, [](std::uint64_t done, std::uint64_t all) { ... });
#pragma once

#include <cstdint>
#include <functional>

namespace tessera::train {

/// Receives the work done so far and all work, in units of the phase. An exception that it throws ends the phase and
/// reaches the caller of the phase, unless it is a tessera::Error.
using OnProgress = std::function<void(std::uint64_t done, std::uint64_t all)>;

}  // namespace tessera::train
