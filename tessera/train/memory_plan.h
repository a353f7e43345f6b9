// Predicts the memory of each rank from the parallelism plan alone. Parameters, gradients and optimizer state are
// counted. For the rest, the prediction walks a step call by call, with the results of each call and the tensors that
// it saves for its gradient. Nothing runs, so a prediction needs no ranks.
#pragma once

#include <vector>

#include "tessera/base/export.h"
#include "tessera/train/config.h"
#include "tessera/train/plan.h"
#include "tessera/train/trainer.h"

namespace tessera::train {

/// Returns the peak of each owner on the first rank, and `total`, the overall peak. `config` must be resolved.
TESSERA_API std::vector<OwnedBytes> predicted_memory(const Config& config, const ParallelPlan& plan);

/// Bytes of gradients that one launch reduces. Until it ends, the old and the new gradients coexist.
inline constexpr std::int64_t kSettledTogether = std::int64_t{64} << 20;

}  // namespace tessera::train
