// A greedy planner for comparison: it reduces partial axes, then proceeds axis by axis, from inner to outer, and
// ignores costs. The exact planner must not be more expensive.
#pragma once

#include <cstdint>

#include "tessera/layout/cost_model.h"
#include "tessera/layout/plan.h"

namespace tessera::layout::testing {

/// Compared values of a greedy plan.
struct GreedyPlan {
  double us = 0;
  std::int64_t largest_part_nbytes = 0;  ///< Largest intermediate shard: the plan keeps no budget.
};

/// Returns the greedy plan for a request whose layouts have common atoms.
GreedyPlan greedy_plan(const PlanRequest& request, const CostModel& model);

}  // namespace tessera::layout::testing
