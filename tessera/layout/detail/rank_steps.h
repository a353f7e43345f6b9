// Steps of ranks brought to their one form: no step of size 1, and two steps that make one progression are one.
#pragma once

#include "tessera/layout/mesh.h"

namespace tessera::layout::detail {

/// Adds a step that is minor to all there are.
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

/// The steps of a part of an axis (before x size x after, read as in SubAxis) out of the parts of the axis, major to
/// minor, added to `steps`. The bounds of the part must nest with those of the axis' own parts.
template <class Steps>
void add_steps_of_part(Steps& steps, const Axis& axis, std::int64_t before, std::int64_t size) {
  std::int64_t outer = 1;  // product of the sizes of the axis' parts before this one
  for (const RankStep& part : axis.parts) {
    const std::int64_t inner = outer * part.size;
    const std::int64_t from = outer > before ? outer : before;
    const std::int64_t to = inner < before * size ? inner : before * size;
    if (from < to) add_step(steps, {to / from, part.stride * (inner / to)});
    outer = inner;
  }
}

}  // namespace tessera::layout::detail
