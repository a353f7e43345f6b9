// The planner one would write first, and that others ship: settle what is partial, then go axis by axis, from inner to
// outer, and never look at a price. The exact planner must not be dearer.
#pragma once

#include <cstdint>

#include "tessera/layout/cost_model.h"
#include "tessera/layout/plan.h"

namespace tessera::layout::testing {

/// A greedy plan, as far as it is compared.
struct GreedyPlan {
  double us = 0;
  std::int64_t largest_part_nbytes = 0;  ///< on the way: it keeps to no budget
};

/// The greedy plan for a request whose ends have common atoms.
GreedyPlan greedy_plan(const PlanRequest& request, const CostModel& model);

}  // namespace tessera::layout::testing
