// Steps and their prices once more, straight from the words of plan.h and cost_model.h, for the tests' planners. A
// state is an AtomLayout; a list is a list of cuts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/layout/cost_model.h"
#include "tessera/layout/detail/atoms.h"
#include "tessera/layout/plan.h"

namespace tessera::layout::testing {

/// What prices depend on.
struct Setting {
  const detail::Atoms& atoms;
  const Shape& shape;
  std::int64_t itemsize;
  const CostModel& model;
};

/// Elements of the largest part.
double part_numel(const Setting& setting, const detail::AtomLayout& layout);

/// A state with what is asked of it again and again.
struct DescribedState {
  detail::AtomLayout layout;
  std::vector<std::int64_t> extents = {};  ///< of the largest piece, by dimension
  std::vector<bool> is_even = {};          ///< whether every cut of the dimension divided
  double numel = 1;                        ///< of the largest part
};
/// Describes a state.
DescribedState describe(const Setting& setting, const detail::AtomLayout& layout);

/// A step as the definition has it.
struct DefinedStep {
  StepKind kind;
  double nbytes;
  double us;
};

/// The cheapest step from `a` to `b`; none: no step leads there. Atoms that are partial in `a` alone are folded, in
/// `b` alone made partial.
std::optional<DefinedStep> defined_step(const Setting& setting, const DescribedState& a, const DescribedState& b);

}  // namespace tessera::layout::testing
