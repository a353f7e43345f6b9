// Random layouts and shapes, and who holds what by the definition: lists of indices, cut piece by piece. What tests
// hold the closed forms against.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/layout/layout.h"
#include "tessera/layout/testing/mesh_model.h"

namespace tessera::layout::testing {

/// Indices that a rank holds of one dimension, in the order in which it holds them.
using Indices = std::vector<std::int64_t>;

/// What every rank of a mesh holds of a tensor.
struct OwnershipTable {
  std::vector<std::vector<Indices>> held;  ///< by place in the mesh model, then by dimension
  bool divides = true;                     ///< blocks divided what was left, on every rank
  bool keeps_runs = true;                  ///< no cut took parts of several runs, and what is left is evenly spaced
};

/// Cuts index lists by the definition.
OwnershipTable ownership(const MeshModel& mesh, const LayoutParts& parts, const Shape& shape);

/// Parts of the mesh's axes that cut dimensions below `ndim`, are partial, or do nothing. Now and then with blocks, an
/// order that is not that of the axes, or given sizes.
LayoutParts random_parts(Random& random, const Mesh& mesh, int ndim);
/// A small shape, of sizes that blocks of the layout often divide; given sizes are kept to, but for a few.
Shape random_shape(Random& random, const LayoutParts& parts, int ndim, std::int64_t most_numel);

}  // namespace tessera::layout::testing
