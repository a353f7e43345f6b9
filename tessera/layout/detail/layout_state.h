// State of a Layout: its canonical parts and precomputed values for the arithmetic. The coordinate along a split
// follows from the rank by division, without the mesh.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/small_vector.h"
#include "tessera/layout/detail/text_reader.h"
#include "tessera/layout/layout.h"

namespace tessera::layout::detail {

/// A factor of a sub-axis along which ranks are `stride` apart. Its coordinate is (rank - first) / stride % size.
struct ShardStep {
  std::uint32_t stride = 1;
  std::uint32_t size = 1;
  std::uint32_t weight = 1;  ///< Weight of its coordinate in the coordinate of the sub-axis.
};

/// A split in the form that the arithmetic uses.
struct PlacedSharding {
  std::int64_t size = 1;
  std::int64_t blocks = 1;
  SmallVector<ShardStep, 2> steps;  ///< One step, except for flattened axes.

  /// Returns the coordinate along the sub-axis of the rank at `distance` from the first rank of the mesh.
  [[nodiscard]] std::int64_t coordinate(std::uint32_t distance) const {
    std::int64_t coordinate = 0;
    for (const ShardStep& step : steps) coordinate += std::int64_t{distance / step.stride % step.size} * step.weight;
    return coordinate;
  }
  /// Returns the distance from the first rank of the mesh to the rank at this coordinate.
  [[nodiscard]] std::int64_t distance(std::int64_t coordinate) const {
    std::int64_t distance = 0;
    for (const ShardStep& step : steps) distance += coordinate / step.weight % step.size * step.stride;
    return distance;
  }
};

/// A dimension in the form that the arithmetic uses.
struct PlacedDim {
  std::vector<PlacedSharding> shardings;
  bool has_blocks = false;  ///< True if some split has blocks.
  /// Start of each explicit chunk of the first split, and the end of the last. Empty for ceil-chunks.
  std::vector<std::int64_t> starts;
  std::int64_t largest = 0;  ///< Size of the largest explicit chunk.
};

/// State that handles of equal layouts share.
struct LayoutState {
  Mesh mesh;
  LayoutParts parts;  ///< Canonical.
  LayoutId id;
  LayoutHash hash;
  std::string placements_text;
  std::int64_t first_rank = 0;
  std::vector<PlacedDim> dims;
  bool is_plain = true;               ///< No split has blocks or explicit sizes.
  SmallVector<RankStep, 6> replicas;  ///< Steps between ranks that hold equal data, by axis.
  std::uint64_t key = 0;              ///< Key in the table of layouts.
  bool is_counted = false;            ///< Freed with the last handle.
  std::atomic<std::int64_t> holders = 0;
  /// The layout without partial axes, once it is known; never set for counted layouts.
  mutable std::atomic<LayoutState*> reduced = nullptr;
};

/// Gives the arithmetic access to the state.
struct LayoutAccess {
  static const LayoutState& state(const Layout& layout) { return layout.state(); }
  /// Returns the handle of a layout that is not counted.
  static Layout uncounted(LayoutState* state) { return Layout(state); }
  /// Returns the state of a layout that is not counted, to keep without a reference; null if it is counted.
  static LayoutState* uncounted(const Layout& layout) { return layout.state().is_counted ? nullptr : layout.state_; }
};

/// Returns the number of interned layouts in the process, for tests.
std::size_t interned_layouts();

/// Maximum number of dimensions of a tensor with a layout.
inline constexpr int kMaxDims = 64;

/// Checks the parts against the mesh and converts them to the canonical form.
void canonicalize(const Mesh& mesh, LayoutParts& parts);
/// Returns the text of canonical parts.
std::string placements_text(const Mesh& mesh, const LayoutParts& parts);
/// Reads placements for the axes of a mesh, up to the end of the text.
LayoutParts read_placements(TextReader& reader, const Mesh& mesh);
/// Returns the name for errors: "tp", or "tp(2:3)" for a sub-axis.
std::string name_of(const Mesh& mesh, const SubAxis& part);

}  // namespace tessera::layout::detail
