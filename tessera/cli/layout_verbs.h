// The subcommands of `tessera layout`. Each has one file (layout_show.cpp, ...), a function declared here and a line in
// declare() of layout.cpp.
#pragma once

#include <string>

#include "tessera/base/shape.h"
#include "tessera/cli/command.h"
#include "tessera/cli/table.h"
#include "tessera/layout/layout.h"

namespace tessera::cli {

// Each function adds its options and returns the function to run after they are parsed. Exceptions are printed in one
// line; InvalidArgument means that the command line is invalid.
Body declare_layout_show(Command& command);
Body declare_layout_plan(Command& command);
Body declare_layout_explain(Command& command);

/// Parses "8x6" or "8,6"; "scalar" or an empty text has no dimensions. Throws InvalidArgument with the fault.
Shape read_shape(const std::string& text);
/// Parses placements on a mesh. If `mesh` is empty, the text begins with the mesh.
layout::Layout read_layout(const std::string& mesh, const std::string& text);
/// Returns 32 hexadecimal digits.
std::string hash_text(const layout::LayoutHash& hash);
/// Returns for example "8x6" or "scalar".
std::string shape_text(const Shape& shape);

}  // namespace tessera::cli
