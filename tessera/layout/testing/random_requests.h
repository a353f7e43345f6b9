// Random requests for plans: meshes, shapes and layouts of all kinds, from one seed.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tessera/layout/plan.h"

namespace tessera::layout::testing {

/// Limits of random requests.
struct RequestKind {
  int min_axes = 1;
  int max_axes = 3;
  int max_dims = 3;
  bool is_small = true;      ///< True: sizes for execution element by element. False: sizes of real tensors.
  int uneven_percent = 0;    ///< Share of shapes that axes do not divide.
  int special_percent = 0;   ///< Share of layouts with blocks, explicit sizes or sub-axes.
  int partial_percent = 25;  ///< Share of partial axes among those that do not shard.
};

/// Returns a random layout of a tensor of this shape on the mesh.
Layout random_layout(std::mt19937_64& random, const Mesh& mesh, const Shape& shape, const RequestKind& kind);
/// Returns a request whose layouts have common atoms.
PlanRequest random_request(std::uint64_t seed, const RequestKind& kind);

/// Draws the published pairs of testdata/redistribution_pairs.txt: 2,000 requests of up to 4 axes x 4 dimensions, with
/// fixed seeds. Benchmarks and claims of optimality refer to them.
std::vector<PlanRequest> draw_published_pairs();

/// Returns one line with the mesh, the shape, `from` and `to`, which parse_pair() reads.
std::string pair_text(const PlanRequest& request);
/// Returns the request of a line, for 4-byte elements.
PlanRequest parse_pair(const std::string& line);
/// Returns the path of the published pairs.
std::string published_pairs_path();
/// Loads the published pairs. Lines that begin with # are comments.
std::vector<PlanRequest> load_published_pairs();

}  // namespace tessera::layout::testing
