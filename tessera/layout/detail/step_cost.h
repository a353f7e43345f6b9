// Computes the cheapest single step between two states and its cost. The rules are those of plan.h, the costs those of
// cost_model.h. testing/step_definition.cpp implements both a second time, without optimizations.
#pragma once

#include <cstdint>
#include <limits>

#include "tessera/layout/detail/plan_space.h"
#include "tessera/layout/plan.h"

namespace tessera::layout::detail {

/// A step between two states. Bytes are doubles: padded sums may exceed 2^63.
struct StepCost {
  StepKind kind = StepKind::kBoxExchange;
  Mask axes = 0;
  double hops = 0;
  double nbytes = 0;
  double copy_nbytes = 0;
  double us = 0;
};

/// Costs are multiples of this many microseconds (2^-20), so sums are exact and equal costs compare equal.
constexpr double kCostGrain = 0x1p-20;

/// Finds the cheapest step from `a` to `b`; of equal steps, the first kind. Returns false if no step exists or all cost
/// more than `limit_us`. A step above the limit may still be returned.
bool step_cost(const PlanSpace& space, const PlanState& a, const PlanState& b, StepCost& cost,
               double limit_us = std::numeric_limits<double>::infinity());

/// Returns the elements of its new shard that the busiest rank lacks: the amount that a box exchange receives.
double lacking_numel(const PlanSpace& space, const PlanState& a, const PlanState& b);

}  // namespace tessera::layout::detail
