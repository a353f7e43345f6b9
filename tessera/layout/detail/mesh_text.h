// Text form of a mesh; see Mesh::text().
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/layout/detail/text_reader.h"
#include "tessera/layout/mesh.h"

namespace tessera::layout::detail {

/// Axes as read; only their syntax is checked.
struct MeshText {
  std::vector<Axis> axes;  ///< Without factors if the text has none.
  std::int64_t first = 0;
};

/// Returns the text of axes with canonical factors.
std::string mesh_text(std::span<const Axis> axes, std::int64_t first);
/// Reads a mesh and the blanks after it.
MeshText read_mesh(TextReader& reader);
/// Sets the factor of each axis as in a row-major mesh.
void make_row_major(std::vector<Axis>& axes);
/// Throws InvalidArgument if the text cannot represent a name or an option.
void check_axis_text(const Axis& axis);

}  // namespace tessera::layout::detail
