// Cosines and sines of the angles of rope. A table depends only on the attributes and the sequence length, so that the
// calls of a training step share one cached table.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/ops/nn/rope.h"

namespace tessera::ops::detail {

/// Returns the rotation of each pair per position, in radians, for vectors whose first `width` elements are rotated.
std::vector<double> rope_frequencies(const RopeAttributes& how, std::int64_t width);

/// Cosines of the pairs of each position, then their sines: [positions][2][pairs]. T is float or double.
template <class T>
using AngleTable = std::shared_ptr<const std::vector<T>>;

/// Returns the table of positions 0 to `sequence` - 1, shifted or mapped as `how` specifies, for vectors whose first
/// `width` elements are rotated. Caches the last eight tables of at most 16 MiB each. Thread-safe.
template <class T>
AngleTable<T> angles_of_sequence(const RopeAttributes& how, std::int64_t width, std::int64_t sequence);

/// Returns a new table of `count` positions; position(i) returns the i-th one.
template <class T>
AngleTable<T> angles_of_positions(const RopeAttributes& how, std::int64_t width, std::int64_t count,
                                  const std::function<std::int64_t(std::int64_t)>& position);

}  // namespace tessera::ops::detail
