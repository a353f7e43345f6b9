#include "tessera/nn/sharding_table.h"

#include <algorithm>
#include <array>

#include "tessera/base/error.h"

namespace tessera::nn {
namespace {

using layout::Layout;
using layout::LayoutParts;
using layout::Mesh;
using layout::SubAxis;

std::vector<std::string> axes_in(std::string_view text) {
  std::vector<std::string> axes;
  while (!text.empty()) {
    const std::size_t end = text.find('+');
    axes.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
    if (text.empty()) axes.emplace_back();
  }
  return axes;
}

std::string text_of(const std::vector<std::string>& axes) {
  std::string text;
  for (const std::string& axis : axes) text += (text.empty() ? "" : "+") + axis;
  return text;
}

std::string mesh_axes(const Mesh& mesh) {
  std::string text;
  for (const layout::Axis& axis : mesh.axes()) text += (text.empty() ? "" : ", ") + axis.name;
  return text;
}

bool has_axis(const Mesh& mesh, std::string_view name) {
  return std::ranges::any_of(mesh.axes(), [&](const layout::Axis& axis) { return axis.name == name; });
}

}  // namespace

ShardingTable::ShardingTable(std::initializer_list<std::pair<std::string, std::string>> rows) {
  for (const auto& [meaning, axes] : rows) {
    TESSERA_CHECK(!rows_.contains(meaning), "ShardingTable: meaning '", meaning, "' must occur once; remove a row");
    add(meaning, axes);
  }
}

void ShardingTable::add(const std::string& meaning, std::string_view axes) {
  TESSERA_CHECK(!meaning.empty(), "ShardingTable: a meaning must not be empty, got the row '' = '", axes, "'");
  std::vector<std::string> names = axes_in(axes);
  for (std::size_t i = 0; i < names.size(); ++i) {
    TESSERA_CHECK(!names[i].empty(), "ShardingTable: row ", meaning, " must name axes separated by '+', got '", axes,
                  "'");
    TESSERA_CHECK(std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) ==
                      names.begin() + static_cast<std::ptrdiff_t>(i),
                  "ShardingTable: row ", meaning, " must name each axis once, got '", axes, "'");
  }
  TESSERA_CHECK(meaning != kParameters || names.size() <= 1, "ShardingTable: row ", kParameters,
                " must name one axis, got '", axes, "'; flatten the axes of the mesh into one");
  rows_[meaning] = std::move(names);
}

ShardingTable ShardingTable::with(const std::string& meaning, std::string_view axes) const {
  ShardingTable out = *this;
  out.add(meaning, axes);
  return out;
}

std::string ShardingTable::parameter_axis() const {
  const auto row = rows_.find(std::string(kParameters));
  return row == rows_.end() || row->second.empty() ? std::string() : row->second.front();
}

const std::vector<std::string>& ShardingTable::axes_of(const std::string& meaning, std::string_view what) const {
  const auto row = rows_.find(meaning);
  if (row != rows_.end()) return row->second;
  std::string names;
  for (const auto& [name, axes] : rows_) names += (names.empty() ? "" : ", ") + name;
  TESSERA_THROW(InvalidArgument, "sharding: meaning '", meaning, "' of ", what,
                " must have a row in the sharding table, got rows for ", names.empty() ? "nothing" : names, "; add ",
                meaning, " = \"\" to replicate it");
}

Layout ShardingTable::layout_of(const Mesh& mesh, const Meaning& meaning, std::string_view what) const {
  if (!mesh) return {};
  LayoutParts parts;
  parts.dims.resize(meaning.size());
  std::map<std::string, std::string> used;  // meaning by axis
  for (std::size_t dim = 0; dim < meaning.size(); ++dim) {
    if (meaning[dim].name.empty()) continue;
    for (const std::string& axis : axes_of(meaning[dim].name, what)) {
      TESSERA_CHECK(has_axis(mesh, axis), "sharding: row ", meaning[dim].name, " = \"",
                    text_of(axes_of(meaning[dim].name, what)), "\" must name axes of the mesh (", mesh_axes(mesh),
                    "), got ", axis, " for ", what);
      const auto [other, is_new] = used.emplace(axis, meaning[dim].name);
      TESSERA_CHECK(is_new, "sharding: dimensions of ", what, " must use different axes, got ", axis, " for both ",
                    other->second, " and ", meaning[dim].name, "; change one of these rows");
      const int index = mesh.index_of(axis);
      parts.dims[dim].shardings.push_back({SubAxis{index, 1, mesh.axis(index).size}});
    }
  }
  return Layout::create(mesh, std::move(parts));
}

ParameterLayouts ShardingTable::layouts_of(const Mesh& mesh, const Shape& shape, const Meaning& meaning,
                                           std::string_view what) const {
  if (!mesh) return {};
  TESSERA_CHECK(meaning.empty() || static_cast<int>(meaning.size()) == shape.ndim(), "sharding: ", what,
                " must have one meaning per dimension of ", to_string(shape), ", got ", meaning.size());
  const Layout in_use = layout_of(mesh, meaning, what);
  for (int dim = 0; dim < in_use.ndim(); ++dim) {
    std::int64_t ranks = 1;
    for (const layout::Sharding& sharding : in_use.shardings(dim)) ranks *= sharding.by.size;
    const DimMeaning& of = meaning[static_cast<std::size_t>(dim)];
    TESSERA_CHECK(shape[dim] % (ranks * of.group) == 0, "sharding: dimension ", dim, " of ", what, ", ", of.name,
                  " = \"", text_of(axes_of(of.name, what)), "\", must be divisible by ", ranks, " ranks",
                  of.group > 1 ? " in groups of " + std::to_string(of.group) : std::string(), ", got ", shape[dim]);
  }
  const std::string axis = parameter_axis();
  if (axis.empty() || shape.ndim() == 0) return {in_use, in_use};
  TESSERA_CHECK(has_axis(mesh, axis), "sharding: row ", kParameters, " = \"", axis,
                "\" must name an axis of the mesh (", mesh_axes(mesh), ")");
  LayoutParts parts = in_use.parts();
  parts.dims.resize(static_cast<std::size_t>(shape.ndim()));
  const int index = mesh.index_of(axis);
  for (const layout::DimShardings& dim : parts.dims) {
    for (const layout::Sharding& sharding : dim.shardings) {
      TESSERA_CHECK(sharding.by.axis != index, "sharding: ", what, " must use axis ", axis,
                    " once, got the row of a meaning and the row ", kParameters, "; change one of these rows");
    }
  }
  parts.dims[0].shardings.push_back({SubAxis{index, 1, mesh.axis(index).size}});
  return {Layout::create(mesh, std::move(parts)), in_use};
}

ShardingTable standard_sharding(const Mesh& mesh, bool is_sequence_parallel) {
  const auto present = [&](std::string_view axes) {
    std::vector<std::string> names = axes_in(axes);
    std::erase_if(names, [&](const std::string& name) { return !mesh || !has_axis(mesh, name); });
    return text_of(names);
  };
  const std::string tp = present("tp");
  return {{"batch", present("dp+fsdp")},
          {"sequence", is_sequence_parallel ? tp : ""},
          {"position", ""},
          {"embed", ""},
          {"heads", tp},
          {"mlp", tp},
          {"vocab", tp},
          {"parameters", present("fsdp")}};
}

}  // namespace tessera::nn
