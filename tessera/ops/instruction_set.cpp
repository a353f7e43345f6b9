#include "tessera/ops/instruction_set.h"

#include <hwy/targets.h>

#include <cstdint>

namespace tessera::ops::detail {

std::string instruction_set() {
  const std::int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(usable & -usable);  // the lowest bit is the best target
}

}  // namespace tessera::ops::detail
