// The planner's definition, as plain as it can be said: every state is written out, every two states are compared, and
// Dijkstra's algorithm without any bound finds what each state costs from the source. Shares no code with the planner
// but the atoms; slow, and only for tests.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/layout/cost_model.h"
#include "tessera/layout/detail/atoms.h"
#include "tessera/layout/plan.h"

namespace tessera::layout::testing {

/// The cost of the cheapest plan from one layout to each of several that are partial alike, in microseconds. The budget
/// must be given (in bytes) and be that of all of them. Special cuts that may occur in between are those of the source
/// and of all targets: give one target where there are any.
std::vector<double> exhaustive_costs(const detail::Atoms& atoms, const detail::AtomLayout& from,
                                     const std::vector<detail::AtomLayout>& to, const Shape& shape,
                                     std::int64_t itemsize, std::int64_t budget_nbytes, const CostModel& model);

/// The same for one request. None: the layouts have no common atoms.
std::optional<double> exhaustive_cost(const PlanRequest& request, const CostModel& model);

}  // namespace tessera::layout::testing
