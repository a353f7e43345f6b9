// What leads from one state to another in one step, and for how much. The rules are those of plan.h, the prices those
// of cost_model.h; testing/step_definition.cpp states both once more, in the plain way.
#pragma once

#include <cstdint>
#include <limits>

#include "tessera/layout/detail/plan_space.h"
#include "tessera/layout/plan.h"

namespace tessera::layout::detail {

/// A step between two states. Bytes are real numbers here: padded sums may exceed 2^63, and prices are real anyway.
struct StepPrice {
  StepKind kind = StepKind::kBoxExchange;
  Mask axes = 0;
  double hops = 0;
  double nbytes = 0;
  double copy_nbytes = 0;
  double us = 0;
};

/// Prices are multiples of this many microseconds (2^-20), so that sums of them are exact and equal prices are equal.
constexpr double kPriceGrain = 0x1p-20;

/// The cheapest step from `a` to `b`, the first kind of equals; false: there is none, or it is sure to cost more than
/// `limit_us` (one that costs more may still be returned).
bool price_step(const PlanSpace& space, const PlanState& a, const PlanState& b, StepPrice& price,
                double limit_us = std::numeric_limits<double>::infinity());

/// Elements that the busiest rank lacks of its new part: what a box exchange receives.
double lacking_numel(const PlanSpace& space, const PlanState& a, const PlanState& b);

}  // namespace tessera::layout::detail
