// Records the axes of the collectives of this thread. A function under local_map that communicates over an axis may
// differ between ranks, even if all inputs and results are replicated.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/layout/layout.h"

namespace tessera::shard::detail {

/// Records during its lifetime. Scopes nest, and the outer one also records the axes of the inner one.
class CollectiveAxes {
 public:
  /// Records axes of `mesh`. A collective over another mesh counts as over all axes.
  explicit CollectiveAxes(layout::Mesh mesh);
  ~CollectiveAxes();
  CollectiveAxes(const CollectiveAxes&) = delete;
  CollectiveAxes& operator=(const CollectiveAxes&) = delete;

  /// Returns the recorded axes of the mesh, one bit each.
  [[nodiscard]] std::uint32_t axes() const { return axes_; }
  /// Records a collective over these axes.
  static void note(const layout::Mesh& mesh, std::span<const layout::SubAxis> axes);
  /// Records an operation of a group that belongs to no mesh, as over all axes.
  static void note_all();

 private:
  layout::Mesh mesh_;
  std::uint32_t axes_ = 0;
  CollectiveAxes* outer_;
};

}  // namespace tessera::shard::detail
