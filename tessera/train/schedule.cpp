#include "tessera/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/base/error.h"

namespace tessera::train {

double learning_rate(const ScheduleConfig& config, double peak, std::int64_t step, std::int64_t steps) {
  TESSERA_CHECK(step >= 1 && step <= steps, "step must be in [1, ", steps, "], got ", step);
  if (step <= config.warmup) return peak * static_cast<double>(step) / static_cast<double>(config.warmup);
  if (config.kind == "constant") return peak;
  const std::int64_t falling =
      config.kind == "wsd" ? std::llround(config.decay * static_cast<double>(steps)) : steps - config.warmup;
  const std::int64_t begins = std::max(steps - falling, config.warmup);
  if (step <= begins) return peak;
  const double done = static_cast<double>(step - begins) / static_cast<double>(steps - begins);
  const double left = config.kind == "wsd" ? 1 - done : (1 + std::cos(std::numbers::pi * done)) / 2;
  return peak * (config.floor + (1 - config.floor) * left);
}

}  // namespace tessera::train
