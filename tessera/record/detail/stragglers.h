// Ranks that come later than the others. All ranks leave a collective together, so the one that waits least in it came
// last: each rank's wait is read on its own clock, and clocks need not agree.
#pragma once

#include <vector>

#include "tessera/record/detail/compare.h"
#include "tessera/record/detail/overview.h"
#include "tessera/record/explain.h"

namespace tessera::record::detail {

/// A straggler, and what it costs.
struct Lateness {
  Straggler straggler = {};  ///< who
  double share = 0;          ///< of the time between two collectives that the others lose to it
};
/// Those of a group that were last in half of its collectives or more.
void add_late_ranks(const GroupView& group, const std::vector<Came>& all, std::vector<Lateness>& late);

}  // namespace tessera::record::detail
