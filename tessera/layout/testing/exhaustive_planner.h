// Reference planner: enumerates all states, compares each pair, and runs Dijkstra's algorithm without bounds. Shares no
// code with the planner except the atoms. Slow; for tests only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/layout/cost_model.h"
#include "tessera/layout/detail/atoms.h"
#include "tessera/layout/plan.h"

namespace tessera::layout::testing {

/// Returns the costs, in microseconds, of the cheapest plans from one layout to each of several that are partial in the
/// same way. The budget must be given in bytes and applies to all. Intermediate layouts use the special splits of the
/// source and of all targets, so pass one target if there are any.
std::vector<double> exhaustive_costs(const detail::Atoms& atoms, const detail::AtomLayout& from,
                                     const std::vector<detail::AtomLayout>& to, const Shape& shape,
                                     std::int64_t itemsize, std::int64_t budget_nbytes, const CostModel& model);

/// Returns the cost for one request, or nothing if the layouts have no common atoms.
std::optional<double> exhaustive_cost(const PlanRequest& request, const CostModel& model);

}  // namespace tessera::layout::testing
