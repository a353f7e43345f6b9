// Learning rate schedules:
//
//   const nn::Schedule schedule{.kind = "cosine", .warmup = 100};
//   optimizer.set_learning_rate(nn::learning_rate(schedule, 3e-4, step, steps));
#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/export.h"

namespace tessera::nn {

/// Learning rate schedule.
struct Schedule {
  std::string kind = "cosine";  ///< cosine, wsd (warm-up, stable, decay) or constant
  std::int64_t warmup = 0;      ///< Steps of the rise from 0 to the peak learning rate.
  double decay = 0.2;           ///< wsd: fraction of the steps in which the rate falls.
  double floor = 0.1;           ///< Final learning rate as a fraction of the peak.
};

/// Returns the learning rate of `step`, in [1, steps]. It rises linearly to `peak` over the warm-up steps. Then it
/// falls to `floor` * peak at the last step: along half a cosine or, for wsd, linearly over the last `decay` of the
/// steps. With kind "constant" it stays at `peak`. Throws InvalidArgument for another kind or step.
TESSERA_API double learning_rate(const Schedule& schedule, double peak, std::int64_t step, std::int64_t steps);

}  // namespace tessera::nn
