// All ways to bring the inputs of a call to layouts that fit together, tried one by one: every plain layout of every
// input, in every combination, priced by the planner, and asked of propagate() whether it fits. No rows, no factors, no
// bounds on anything but prices. For small meshes.
#pragma once

#include <span>
#include <vector>

#include "tessera/layout/propagate.h"

namespace tessera::layout::testing {

/// A combination that fits.
struct ExhaustiveFix {
  std::vector<Layout> inputs;
  double us = 0;
  int moved = 0;
};

/// The `most` cheapest: microseconds, inputs moved, text. Axes are partial only in ways that some input has along them.
std::vector<ExhaustiveFix> exhaustive_fixes(const FactorRule& rule, std::span<const Operand> inputs,
                                            std::span<const Shape> outputs, Planner& planner, std::size_t most);

}  // namespace tessera::layout::testing
