// Computes a plan from a request: common atoms, search, and the steps as layouts with their costs.
#pragma once

#include <cstdint>
#include <optional>

#include "tessera/layout/cost_model.h"
#include "tessera/layout/detail/atoms.h"
#include "tessera/layout/plan.h"

namespace tessera::layout::detail {

/// Source and target of a request over their common atoms.
struct PlanEnds {
  Atoms atoms;
  AtomLayout from;
  AtomLayout to;
};
/// Checks the request. Throws InvalidArgument with the reason if source and target have no common atoms.
PlanEnds read_ends(const PlanRequest& request);

/// Returns the cheapest plan, without a cache.
Plan make_plan(const PlanRequest& request, const CostModel& model);
/// Returns the cheapest single step, or nothing if no single step exists.
std::optional<Step> make_step(const PlanRequest& request, const CostModel& model);

}  // namespace tessera::layout::detail
