// A mesh as a plain table of ranks and their coordinates, made by doing to the table what is done to the mesh: what
// tests hold Mesh's closed forms against.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tessera/layout/mesh.h"

namespace tessera::layout::testing {

using Random = std::mt19937_64;

/// A number from `low` to `high`, both included.
inline std::int64_t pick(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

/// See the head of this file.
struct MeshModel {
  struct Place {
    std::int64_t rank = 0;
    std::vector<std::int64_t> coordinates;
  };
  std::vector<std::string> names;
  std::vector<std::int64_t> sizes;
  std::vector<Place> places;  ///< in the order of coordinates, the last axis fastest

  /// Row-major from `first`.
  static MeshModel row_major(std::vector<std::string> names, std::vector<std::int64_t> sizes, std::int64_t first);
  /// The axes of these names, in this order, around the rank.
  [[nodiscard]] MeshModel slice(const std::vector<std::string>& kept, std::int64_t rank) const;
  /// These axes made one.
  [[nodiscard]] MeshModel flatten(const std::vector<std::string>& merged, const std::string& name) const;
  /// Axis `index` cut in two.
  [[nodiscard]] MeshModel unflatten(std::size_t index, const std::string& major, const std::string& minor,
                                    std::int64_t minor_size) const;
};

/// A mesh with its model.
struct ModelledMesh {
  Mesh mesh;
  MeshModel model;
};
/// A mesh of at most `most_ranks` ranks: axes in any order, some flattened, unflattened, sliced away, from any rank on.
ModelledMesh random_mesh(Random& random, std::int64_t most_ranks);

}  // namespace tessera::layout::testing
