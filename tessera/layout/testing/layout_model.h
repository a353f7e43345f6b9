// Random layouts and shapes, and a reference for ownership: lists of indices, split
// chunk by chunk. Tests compare the closed forms with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/layout/layout.h"
#include "tessera/layout/testing/mesh_model.h"

namespace tessera::layout::testing {

/// Indices that a rank holds of one dimension, in local order.
using Indices = std::vector<std::int64_t>;

/// Indices of a tensor that each rank of a mesh holds.
struct OwnershipTable {
  std::vector<std::vector<Indices>> held;  ///< By index in the mesh model, then by dimension.
  bool divides = true;                     ///< Blocks divided the remaining extent on each rank.
  /// No split took fragments of several runs, and the result is evenly spaced.
  bool keeps_runs = true;
};

/// Splits index lists by the definition.
OwnershipTable ownership(const MeshModel& mesh, const LayoutParts& parts, const Shape& shape);

/// Returns random parts: sub-axes of the mesh that shard dimensions below `ndim`, are partial, or are unused. Some have
/// blocks, an order other than that of the axes, or explicit sizes.
LayoutParts random_parts(Random& random, const Mesh& mesh, int ndim);
/// Returns a small shape whose sizes are often divisible by the blocks of the layout. Most shapes match explicit sizes.
Shape random_shape(Random& random, const LayoutParts& parts, int ndim, std::int64_t max_numel);

}  // namespace tessera::layout::testing
