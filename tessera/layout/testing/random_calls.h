// Random meshes, layouts and calls of operators, small enough to try everything on them. Half of the calls are made to
// fit together (the same cuts for the same factors), so that matches are common; the rest is left to chance.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "tessera/layout/factor_rule.h"
#include "tessera/layout/propagate.h"

namespace tessera::layout::testing {

using Random = std::mt19937_64;

/// What may be drawn.
struct CallOptions {
  int most_axes = 3;
  std::int64_t most_ranks = 16;
  bool plain = false;  ///< no parts of axes, no blocks, no given sizes, no views
};

/// A call of an operator.
struct RandomCall {
  FactorRule rule;
  std::vector<Operand> inputs;
  std::vector<Shape> outputs;

  /// All of it, to repeat it by hand.
  [[nodiscard]] std::string text() const;
};

/// A mesh of 1 to most_axes axes of sizes 1 to 4.
Mesh random_mesh(Random& random, const CallOptions& options);
/// A layout that fits the shape.
Layout random_layout(Random& random, const Mesh& mesh, const Shape& shape, const CallOptions& options);
/// A call on this mesh.
RandomCall random_call(Random& random, const Mesh& mesh, const CallOptions& options);

}  // namespace tessera::layout::testing
