// Checks times in records: a corrupt one must not extend a drawing over centuries.
#pragma once

#include <cstdint>

#include "tessera/analysis/detail/wording.h"

namespace tessera::analysis::detail {

/// Returns true if an event of a run that was read at `taken_ns` can have this time: not 400 days earlier and, because
/// clocks differ, not an hour later. If the time of reading is unknown, every time after 1970 is plausible.
inline bool is_plausible(std::int64_t moment_ns, std::int64_t taken_ns) {
  constexpr std::int64_t kHour = 3'600'000'000'000;
  if (moment_ns <= 0) return false;
  if (taken_ns <= 0) return true;
  return difference(moment_ns, taken_ns) < 24 * 400 * kHour && difference(taken_ns, moment_ns) < kHour;
}

}  // namespace tessera::analysis::detail
