// Reference implementation of the steps of plan.h and the costs of cost_model.h, for the planners of the tests. A state
// is an AtomLayout; a list is a list of splits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/layout/cost_model.h"
#include "tessera/layout/detail/atoms.h"
#include "tessera/layout/plan.h"

namespace tessera::layout::testing {

/// Parameters of the costs.
struct Setting {
  const detail::Atoms& atoms;
  const Shape& shape;
  std::int64_t itemsize;
  const CostModel& model;
};

/// Returns the elements of the largest shard.
double part_numel(const Setting& setting, const detail::AtomLayout& layout);

/// A state with precomputed values.
struct DescribedState {
  detail::AtomLayout layout;
  std::vector<std::int64_t> extents = {};  ///< Extents of the largest chunk, by dimension.
  std::vector<bool> is_even = {};          ///< True if every split of the dimension divides.
  double numel = 1;                        ///< Elements of the largest shard.
};
DescribedState describe(const Setting& setting, const detail::AtomLayout& layout);

/// A step of the reference implementation.
struct DefinedStep {
  StepKind kind;
  double nbytes;
  double us;
};

/// Returns the cheapest step from `a` to `b`, or nothing if no step exists. Atoms that are partial only in `a` are
/// reduced; atoms that are partial only in `b` become partial.
std::optional<DefinedStep> defined_step(const Setting& setting, const DescribedState& a, const DescribedState& b);

}  // namespace tessera::layout::testing
