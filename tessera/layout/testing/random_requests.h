// Random requests for plans: meshes, shapes and layouts of all the kinds there are, from one seed.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tessera/layout/plan.h"

namespace tessera::layout::testing {

/// What to draw.
struct RequestKind {
  int least_axes = 1;
  int most_axes = 3;
  int most_dims = 3;
  bool is_small = true;      ///< sizes that can be executed element by element; else those of real tensors
  int uneven_percent = 0;    ///< of shapes that axes do not divide
  int special_percent = 0;   ///< of layouts with blocks, given sizes or parts of axes
  int partial_percent = 25;  ///< of axes that do not cut
};

/// A layout of a tensor of this shape on the mesh.
Layout random_layout(std::mt19937_64& random, const Mesh& mesh, const Shape& shape, const RequestKind& kind);
/// A request whose ends have common atoms.
PlanRequest random_request(std::uint64_t seed, const RequestKind& kind);

/// The published pairs, testdata/redistribution_pairs.txt: 2,000 requests up to 4 axes x 4 dimensions, drawn with fixed
/// seeds. Rows of benchmarks and claims of optimality are about these.
std::vector<PlanRequest> draw_published_pairs();

/// One line: mesh, shape, from, to; what parse_pair reads.
std::string pair_text(const PlanRequest& request);
/// The request of a line; 4-byte elements.
PlanRequest parse_pair(const std::string& line);
/// Where the published pairs lie.
std::string published_pairs_path();
/// The published pairs as they lie there; lines that begin with # are comments.
std::vector<PlanRequest> load_published_pairs();

}  // namespace tessera::layout::testing
