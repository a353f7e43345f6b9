#include "tessera/nn/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/base/error.h"

namespace tessera::nn {

double learning_rate(const Schedule& schedule, double peak, std::int64_t step, std::int64_t steps) {
  TESSERA_CHECK(schedule.kind == "cosine" || schedule.kind == "wsd" || schedule.kind == "constant",
                "schedule: kind must be cosine, wsd or constant, got '", schedule.kind, "'");
  TESSERA_CHECK(step >= 1 && step <= steps, "schedule: step must be in [1, ", steps, "], got ", step);
  if (step <= schedule.warmup) return peak * static_cast<double>(step) / static_cast<double>(schedule.warmup);
  if (schedule.kind == "constant") return peak;
  const std::int64_t falling =
      schedule.kind == "wsd" ? std::llround(schedule.decay * static_cast<double>(steps)) : steps - schedule.warmup;
  const std::int64_t begins = std::max(steps - falling, schedule.warmup);
  if (step <= begins) return peak;
  const double done = static_cast<double>(step - begins) / static_cast<double>(steps - begins);
  const double left = schedule.kind == "wsd" ? 1 - done : (1 + std::cos(std::numbers::pi * done)) / 2;
  return peak * (schedule.floor + (1 - schedule.floor) * left);
}

}  // namespace tessera::nn
