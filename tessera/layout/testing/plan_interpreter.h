// Executes a plan on the host, literally: each rank has a table from each element of the global tensor to a value or
// nothing, and a step fills new tables from those of its group. It uses steps, groups and layouts, but no part of the
// planner. For small shapes.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/layout/plan.h"

namespace tessera::layout::testing {

/// Runs the plan on values derived from `seed`. Returns an empty string if each rank ends with exactly its shard of the
/// correct values, and no step reads elements that its group does not hold, receives more bytes than declared, or
/// exceeds the budget. Otherwise returns the first violation.
std::string check_plan(const Plan& plan, std::uint64_t seed);

}  // namespace tessera::layout::testing
