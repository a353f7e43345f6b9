// Over which axes collectives were asked for on this thread: a function under local_map that talks over an axis does
// not do the same on all its ranks, even where all it takes and gives is replicated.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/layout/layout.h"

namespace tessera::shard::detail {

/// Notes while it lives. Scopes nest, and the outer one is told what the inner one noted.
class SpokenOver {
 public:
  /// Of this mesh; a collective over another one counts as over all its axes.
  explicit SpokenOver(layout::Mesh mesh);
  ~SpokenOver();
  SpokenOver(const SpokenOver&) = delete;
  SpokenOver& operator=(const SpokenOver&) = delete;

  /// Axes of the mesh, a bit each.
  [[nodiscard]] std::uint32_t axes() const { return axes_; }
  /// A collective was asked for over these axes.
  static void note(const layout::Mesh& mesh, std::span<const layout::SubAxis> axes);

 private:
  layout::Mesh mesh_;
  std::uint32_t axes_ = 0;
  SpokenOver* outer_;
};

}  // namespace tessera::shard::detail
