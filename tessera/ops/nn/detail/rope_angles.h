// Cosines and sines of the angles that rope turns by. A table is a function of the attributes and the sequence alone,
// so that the calls of a training step, which all have the same ones, share it: it is made once and kept.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/ops/nn/rope.h"

namespace tessera::ops::detail {

/// For each position the cosines of its pairs, then their sines: [positions][2][pairs], T being float or double.
template <class T>
using AngleTable = std::shared_ptr<const std::vector<T>>;

/// Returns the table of positions 0 to `sequence` - 1, shifted or mapped as `how` says, for vectors whose first `width`
/// elements are rotated. Keeps the last eight tables of at most 16 MiB each. Thread-safe.
template <class T>
AngleTable<T> angles_of_sequence(const RopeAttributes& how, std::int64_t width, std::int64_t sequence);

/// Returns a new table of `count` positions, position(i) being the i-th one.
template <class T>
AngleTable<T> angles_of_positions(const RopeAttributes& how, std::int64_t width, std::int64_t count,
                                  const std::function<std::int64_t(std::int64_t)>& position);

}  // namespace tessera::ops::detail
