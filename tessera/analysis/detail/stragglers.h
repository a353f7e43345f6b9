// Ranks that arrive later than the others. All ranks leave a collective together, so the one with the shortest wait
// arrived last. Each wait is read on the clock of its rank, so clocks need not agree.
#pragma once

#include <vector>

#include "tessera/analysis/detail/compare.h"
#include "tessera/analysis/detail/overview.h"
#include "tessera/analysis/explain.h"

namespace tessera::analysis::detail {

/// A straggler and its cost.
struct Lateness {
  Straggler straggler = {};
  double share = 0;  ///< Fraction of the time between two collectives that the others lose.
};
/// Adds the ranks of a group that arrived last in at least half of its collectives.
void add_late_ranks(const GroupView& group, const std::vector<Came>& all, std::vector<Lateness>& late);

}  // namespace tessera::analysis::detail
