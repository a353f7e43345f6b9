// The mesh in the config.toml that a trainer writes to its run directory: dp, fsdp and tp of [mesh]. Reading three
// integers needs no TOML library. A file with missing or duplicate values is rejected.
#pragma once

#include <string>
#include <string_view>

namespace tessera::analysis::detail {

/// Ranks along each axis.
struct MeshSizes {
  int dp = 0;    ///< Replicas of the model.
  int fsdp = 0;  ///< Ranks that state is sharded over.
  int tp = 0;    ///< Ranks that layers are sharded over.
  /// Returns the number of ranks; 0 if unknown.
  [[nodiscard]] int size() const { return dp * fsdp * tp; }
};
/// Returns a valid mesh: each axis has a rank, and the product is at most the maximum world size. Otherwise all are 0.
MeshSizes sound_mesh(double dp, double fsdp, double tp);

/// Parses the text of a config.toml; all 0 unless each value is present.
MeshSizes mesh_of_toml(std::string_view text);
/// Reads DIRECTORY/config.toml; all 0 if it does not exist.
MeshSizes trained_mesh(const std::string& directory);

}  // namespace tessera::analysis::detail
