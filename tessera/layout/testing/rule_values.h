// Verifies a propagation by running the operator. A rule is read as a function of small integers that has exactly the
// declared properties. The inputs are sharded by their layouts (partial values by random summands that reduce to the
// value). Each rank computes from its shards, and each result must equal the shard of the global result that the layout
// of the output declares, position by position.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/layout/factor_rule.h"
#include "tessera/layout/propagate.h"

namespace tessera::layout::testing {

/// Returns an empty string if the claim holds on each rank, otherwise the first error. A rule named "view" is a view.
/// In every other rule, dimensions of one factor determine the sizes of the factors.
std::string check_values(const FactorRule& rule, std::span<const Operand> inputs, std::span<const Shape> outputs,
                         std::span<const Layout> claimed, std::uint64_t seed);

}  // namespace tessera::layout::testing
