// Random meshes, layouts and operator calls, small enough for exhaustive search. Half of the calls are made compatible
// (the same splits for the same factors), so that matches are common; the rest are random.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "tessera/layout/factor_rule.h"
#include "tessera/layout/propagate.h"

namespace tessera::layout::testing {

using Random = std::mt19937_64;

/// Limits of random calls.
struct CallOptions {
  int max_axes = 3;
  std::int64_t max_ranks = 16;
  bool plain = false;  ///< No sub-axes, blocks, explicit sizes or views.
};

struct RandomCall {
  FactorRule rule;
  std::vector<Operand> inputs;
  std::vector<Shape> outputs;

  /// Returns all values needed to repeat the call.
  [[nodiscard]] std::string text() const;
};

/// Returns a mesh of 1 to max_axes axes of sizes 1 to 4.
Mesh random_mesh(Random& random, const CallOptions& options);
/// Returns a layout that fits the shape.
Layout random_layout(Random& random, const Mesh& mesh, const Shape& shape, const CallOptions& options);
/// Returns a call on this mesh.
RandomCall random_call(Random& random, const Mesh& mesh, const CallOptions& options);

}  // namespace tessera::layout::testing
