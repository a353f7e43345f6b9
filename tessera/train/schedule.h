// The learning rate of every step.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/train/config.h"

namespace tessera::train {

/// Returns the learning rate of `step`, in [1, steps]. It rises linearly to `peak` over the warm-up steps. Then it
/// falls to `floor` * peak at the last step: along half a cosine or, for wsd, linearly over the last `decay` of the
/// steps. With kind "constant" it stays at `peak`.
TESSERA_API double learning_rate(const ScheduleConfig& config, double peak, std::int64_t step, std::int64_t steps);

}  // namespace tessera::train
