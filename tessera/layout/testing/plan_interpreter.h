// Executes a plan on the host, in the most literal way: each rank has a table from every element of the whole tensor to
// a value or nothing, and a step fills new tables from those of the step's group. Knows steps, groups and layouts, and
// nothing of how a plan was found. For small shapes.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/layout/plan.h"

namespace tessera::layout::testing {

/// Runs the plan on values made from `seed`. Empty: every rank ended with exactly its part of the right values, no step
/// read what its group does not hold, received more than it said, or went over the budget. Else what went wrong.
std::string check_plan(const Plan& plan, std::uint64_t seed);

}  // namespace tessera::layout::testing
