// The verbs of `tessera layout`: each is one file (layout_show.cpp, ...) with a function declared here and a line in
// the table of layout.cpp.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>

#include "tessera/base/shape.h"
#include "tessera/cli/report.h"
#include "tessera/layout/layout.h"

namespace tessera::cli {

// Each adds its options and returns what to run once they are read. What they throw is told in one line: an
// InvalidArgument means that the command line makes no sense.
std::function<int()> declare_layout_show(CLI::App& options);
std::function<int()> declare_layout_plan(CLI::App& options);
std::function<int()> declare_layout_explain(CLI::App& options);

/// The shape of "8x6" or "8,6"; "scalar" or nothing: without dimensions. InvalidArgument says what is wrong.
Shape read_shape(const std::string& text);
/// The layout of placements on a mesh; without a mesh, of a text that begins with its own.
layout::Layout read_layout(const std::string& mesh, const std::string& text);
/// 32 hexadecimal digits.
std::string hash_text(const layout::LayoutHash& hash);
/// "8x6"; "scalar".
std::string shape_text(const Shape& shape);

}  // namespace tessera::cli
