// What a run will need of each rank's memory, from its plan alone: parameters, gradients and the optimizer's state are
// counted; for the rest, a step is gone through call by call, with what each makes and what it keeps for its gradient.
// Nothing is run, so that one can ask before there are as many ranks.
#pragma once

#include <vector>

#include "tessera/base/export.h"
#include "tessera/train/config.h"
#include "tessera/train/plan.h"
#include "tessera/train/trainer.h"

namespace tessera::train {

/// The most that each owner will hold on the first rank, and `total`: the most at once. `config` is resolved.
TESSERA_API std::vector<OwnedBytes> predicted_memory(const Config& config, const Plan& plan);

/// Bytes of gradients that are settled in one launch: new ones stand beside the old ones that long.
inline constexpr std::int64_t kSettledTogether = std::int64_t{64} << 20;

}  // namespace tessera::train
