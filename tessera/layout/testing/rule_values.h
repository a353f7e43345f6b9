// Whether propagation tells the truth, by running the operator. A rule is read as a real function of small integers
// that has exactly the properties it claims; the inputs are cut up as their layouts say (partial values by made-up
// parts that reduce to the whole); every rank computes from what it holds; and what comes out must be the piece of the
// global result that the output's layout claims, position by position.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/layout/factor_rule.h"
#include "tessera/layout/propagate.h"

namespace tessera::layout::testing {

/// Empty when the claim holds on every rank, else the first thing that is wrong. A rule named "view" is a view; every
/// other one has its factors' sizes told by dimensions of one factor.
std::string check_values(const FactorRule& rule, std::span<const Operand> inputs, std::span<const Shape> outputs,
                         std::span<const Layout> claimed, std::uint64_t seed);

}  // namespace tessera::layout::testing
