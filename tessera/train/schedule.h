// The learning rate of every step.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/train/config.h"

namespace tessera::train {

/// Of step `step`, counted from 1, of `steps`, where the optimizer's is `peak`. It rises in equal parts over the
/// warm-up, so that the first step has one of them and the last of the warm-up has all; then it falls to `floor` of it
/// at the last step: along half a cosine, or, of wsd, in a straight line over the last `decay` of the steps.
TESSERA_API double learning_rate(const ScheduleConfig& config, double peak, std::int64_t step, std::int64_t steps);

}  // namespace tessera::train
