// Comparison of parameter replicas. Ranks that hold the same shard of a parameter must hold the same bits. A difference
// means that a rank computed or received other values, and that the replicas diverge.
//
// Every rank sends two digests for each parameter in one all_gather: of the position of its shard and of its content.
// Ranks whose positions are equal must have equal contents.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/nn/optim/optimizer.h"

namespace tessera::train::detail {

/// Compares the replicas of all parameters after step `step`. Collective over the world; blocks. All work on the
/// parameters must have completed. Throws MismatchError on every rank if replicas differ; the error names the rank, the
/// parameter and the step.
void check_replicas(std::span<const nn::NamedTensor> parameters, std::int64_t step);

}  // namespace tessera::train::detail
