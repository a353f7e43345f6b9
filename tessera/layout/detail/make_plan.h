// From a request to a plan: common atoms, search, and the steps as layouts with their prices.
#pragma once

#include <cstdint>
#include <optional>

#include "tessera/layout/cost_model.h"
#include "tessera/layout/detail/atoms.h"
#include "tessera/layout/plan.h"

namespace tessera::layout::detail {

/// Both ends of a request over their common atoms.
struct PlanEnds {
  Atoms atoms;
  AtomLayout from;
  AtomLayout to;
};
/// Checks the request; InvalidArgument says why the ends have no common atoms.
PlanEnds read_ends(const PlanRequest& request);

/// The cheapest plan, without any cache.
Plan make_plan(const PlanRequest& request, const CostModel& model);
/// The cheapest single step, where there is one.
std::optional<Step> make_step(const PlanRequest& request, const CostModel& model);

}  // namespace tessera::layout::detail
