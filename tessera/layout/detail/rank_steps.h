// Canonical rank steps: no step has size 1, and steps that form one progression are merged.
#pragma once

#include "tessera/layout/mesh.h"

namespace tessera::layout::detail {

/// Adds a step that is minor to all existing steps.
template <class Steps>
void add_step(Steps& steps, RankStep step) {
  if (step.size == 1) return;
  if (!steps.empty() && steps[steps.size() - 1].stride == step.stride * step.size) {
    RankStep& major = steps[steps.size() - 1];
    major = {major.size * step.size, step.stride};
    return;
  }
  steps.push_back(step);
}

/// Adds the steps of a sub-axis (before x size x after, as in SubAxis) of `axis` to `steps`, major to minor. The bounds
/// of the sub-axis must nest with those of the factors of the axis.
template <class Steps>
void add_steps_of_part(Steps& steps, const Axis& axis, std::int64_t before, std::int64_t size) {
  std::int64_t outer = 1;  // product of the sizes of the factors before this one
  for (const RankStep& part : axis.parts) {
    const std::int64_t inner = outer * part.size;
    const std::int64_t from = outer > before ? outer : before;
    const std::int64_t to = inner < before * size ? inner : before * size;
    if (from < to) add_step(steps, {to / from, part.stride * (inner / to)});
    outer = inner;
  }
}

}  // namespace tessera::layout::detail
