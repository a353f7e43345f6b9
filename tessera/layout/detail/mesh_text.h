// A mesh as text; see Mesh::text().
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/layout/detail/text_reader.h"
#include "tessera/layout/mesh.h"

namespace tessera::layout::detail {

/// Axes as read, not yet checked beyond their form.
struct MeshText {
  std::vector<Axis> axes;  ///< without parts where the text gives none
  std::int64_t first = 0;
};

/// The text of axes whose parts are in canonical form.
std::string mesh_text(std::span<const Axis> axes, std::int64_t first);
/// Reads a mesh; stops behind it and the blanks that follow.
MeshText read_mesh(TextReader& reader);
/// Gives each axis its part as in a row-major mesh.
void make_row_major(std::vector<Axis>& axes);
/// Refuses names and options that the text could not hold.
void check_axis_text(const Axis& axis);

}  // namespace tessera::layout::detail
