// Reference model of a mesh: a table of ranks and their coordinates, to which each mesh operation is applied. Tests
// compare the closed forms of Mesh with it.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tessera/layout/mesh.h"

namespace tessera::layout::testing {

using Random = std::mt19937_64;

/// Returns a random number in [low, high].
inline std::int64_t pick(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

/// Table of the ranks of a mesh.
struct MeshModel {
  struct AxisPlace {
    std::int64_t rank = 0;
    std::vector<std::int64_t> coordinates;
  };
  std::vector<std::string> names;
  std::vector<std::int64_t> sizes;
  std::vector<AxisPlace> places;  ///< Ordered by coordinates, the last axis fastest.

  /// Returns a row-major mesh from rank `first`.
  static MeshModel row_major(std::vector<std::string> names, std::vector<std::int64_t> sizes, std::int64_t first);
  /// Returns the axes with these names, in this order, that contain the rank.
  [[nodiscard]] MeshModel slice(const std::vector<std::string>& kept, std::int64_t rank) const;
  /// Merges these axes.
  [[nodiscard]] MeshModel flatten(const std::vector<std::string>& merged, const std::string& name) const;
  /// Splits axis `index` in two.
  [[nodiscard]] MeshModel unflatten(std::size_t index, const std::string& major, const std::string& minor,
                                    std::int64_t minor_size) const;
};

/// A mesh with its model.
struct ModelledMesh {
  Mesh mesh;
  MeshModel model;
};
/// Returns a mesh of at most `max_ranks` ranks with axes in any order, some
/// flattened, unflattened or sliced, from a random first rank.
ModelledMesh random_mesh(Random& random, std::int64_t max_ranks);

}  // namespace tessera::layout::testing
