// Reference search for fixes: every plain layout of every input, in every combination, with costs from the planner and
// compatibility from propagate(). Uses no rows, no factors, and no bounds except costs. For small meshes.
#pragma once

#include <span>
#include <vector>

#include "tessera/layout/propagate.h"

namespace tessera::layout::testing {

/// A compatible combination.
struct ExhaustiveFix {
  std::vector<Layout> inputs;
  double us = 0;
  int moved = 0;
};

/// Returns the `most` cheapest, ordered by microseconds, then redistributed inputs, then text. Axes are partial only in
/// ways that some input has along them.
std::vector<ExhaustiveFix> exhaustive_fixes(const FactorRule& rule, std::span<const Operand> inputs,
                                            std::span<const Shape> outputs, Planner& planner, std::size_t most);

}  // namespace tessera::layout::testing
