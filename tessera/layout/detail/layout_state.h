// What a Layout points to: its canonical parts, and what the arithmetic needs of them worked out once. A cut's
// coordinate is found from the rank by division, without going through the mesh.
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

/// A part of a sub-axis along which ranks are `stride` apart: its coordinate is (rank - first) / stride % size.
struct CutStep {
  std::uint32_t stride = 1;
  std::uint32_t size = 1;
  std::uint32_t weight = 1;  ///< of its coordinate in the sub-axis' coordinate
};

/// A cut as the arithmetic uses it.
struct PlacedCut {
  std::int64_t size = 1;
  std::int64_t blocks = 1;
  SmallVector<CutStep, 2> steps;  ///< one, but for flattened axes

  /// The place along the sub-axis of a rank that is `distance` behind the mesh's first.
  [[nodiscard]] std::int64_t coordinate(std::uint32_t distance) const {
    std::int64_t coordinate = 0;
    for (const CutStep& step : steps) coordinate += std::int64_t{distance / step.stride % step.size} * step.weight;
    return coordinate;
  }
  /// How far behind the mesh's first the rank at this coordinate is.
  [[nodiscard]] std::int64_t distance(std::int64_t coordinate) const {
    std::int64_t distance = 0;
    for (const CutStep& step : steps) distance += coordinate / step.weight % step.size * step.stride;
    return distance;
  }
};

/// A dimension as the arithmetic uses it.
struct PlacedDim {
  std::vector<PlacedCut> cuts;
  bool has_blocks = false;  ///< some cut has
  std::vector<std::int64_t>
      starts;                ///< of the given pieces of the first cut, and the end of the last; none: ceil-chunks
  std::int64_t largest = 0;  ///< of the given pieces
};

/// See the head of this file.
struct LayoutState {
  Mesh mesh;
  LayoutParts parts;  ///< canonical
  LayoutId id;
  LayoutHash hash;
  std::string placements_text;
  std::int64_t first_rank = 0;
  std::vector<PlacedDim> dims;
  bool is_plain = true;               ///< neither blocks nor given sizes anywhere
  SmallVector<RankStep, 6> replicas;  ///< steps among the ranks that hold the same; by axis
  std::uint64_t key = 0;              ///< of the table of layouts
  bool is_counted = false;            ///< goes when nobody holds it
  std::atomic<std::int64_t> holders = 0;
};

/// Lets the arithmetic see the state.
struct LayoutAccess {
  static const LayoutState& state(const Layout& layout) { return layout.state(); }
};

/// How many layouts the process knows now, for tests.
std::size_t interned_layouts();

/// Most dimensions of a tensor that has a layout.
inline constexpr int kMostDims = 64;

/// Checks the parts against the mesh and brings them to the canonical form.
void canonicalize(const Mesh& mesh, LayoutParts& parts);
/// The text of canonical parts.
std::string placements_text(const Mesh& mesh, const LayoutParts& parts);
/// Reads placements for the axes of a mesh, up to the end of the text.
LayoutParts read_placements(TextReader& reader, const Mesh& mesh);
/// "tp", or "tp(2:3)" for a part: what an error calls it.
std::string name_of(const Mesh& mesh, const SubAxis& part);

}  // namespace tessera::layout::detail
