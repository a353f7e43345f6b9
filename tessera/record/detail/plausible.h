// Which moments of a record can be: one that is spoilt must not stretch what is drawn over centuries.
#pragma once

#include <cstdint>

#include "tessera/record/detail/wording.h"

namespace tessera::record::detail {

/// Whether something of a run that was read at `taken_ns` can have happened at this moment: not 400 days before, nor,
/// since clocks differ, an hour after. Where it is not known when the run was read every moment after 1970 can be.
inline bool is_plausible(std::int64_t moment_ns, std::int64_t taken_ns) {
  constexpr std::int64_t kHour = 3'600'000'000'000;
  if (moment_ns <= 0) return false;
  if (taken_ns <= 0) return true;
  return difference(moment_ns, taken_ns) < 24 * 400 * kHour && difference(taken_ns, moment_ns) < kHour;
}

}  // namespace tessera::record::detail
