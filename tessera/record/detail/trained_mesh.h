// The mesh that a trainer wrote into its run directory when it started: dp, fsdp and tp of [mesh] in config.toml. Three
// integers, so that a page and a choice of records need no reader of TOML; a file that says more or less is not
// believed.
#pragma once

#include <string>
#include <string_view>

namespace tessera::record::detail {

/// Ranks along each axis.
struct MeshSizes {
  int dp = 0;    ///< copies of the model
  int fsdp = 0;  ///< ranks that state is cut over
  int tp = 0;    ///< ranks that layers are cut over
  /// Ranks in all; 0: it is not known.
  [[nodiscard]] int size() const { return dp * fsdp * tp; }
};
/// One that is sound: each axis has a rank, and all of them are no more than a world can have. Else all are 0.
MeshSizes sound_mesh(double dp, double fsdp, double tp);

/// From the text of a config.toml; all 0 where it does not say each of them.
MeshSizes mesh_of_toml(std::string_view text);
/// From DIRECTORY/config.toml; all 0 where there is none.
MeshSizes trained_mesh(const std::string& directory);

}  // namespace tessera::record::detail
