// A tensor's dimensions are divided where some rank's indices begin or end; a cell of the drawing is what lies between
// two such places in every dimension, and is held whole or not at all by every rank.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tessera/base/error.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/shard/trace.h"

namespace tessera::shard {
namespace {

using layout::IndexMap;
using layout::Layout;

constexpr std::int64_t kMostRanks = 256;
constexpr std::size_t kMostCells = 1024;

struct Run {
  std::int64_t begin;
  std::int64_t end;
};

// The indices of a map as runs that are as long as can be.
std::vector<Run> runs_of(const IndexMap& map) {
  std::vector<Run> out;
  for (std::int64_t i = 0; i < map.size(); i += map.block) {
    const std::int64_t at = map.global(i);
    if (!out.empty() && out.back().end == at) {
      out.back().end += map.block;
    } else {
      out.push_back({at, at + map.block});
    }
  }
  return out;
}

// The pieces of one dimension.
std::vector<Run> pieces_of(const Layout& layout, const Shape& shape, int dim) {
  std::set<std::int64_t> places = {0, shape[static_cast<std::size_t>(dim)]};
  for (std::int64_t r = 0; r < layout.mesh().size(); ++r) {
    for (const Run& run : runs_of(layout::index_map(layout, shape, dim, layout.mesh().ranks().at(r)))) {
      places.insert({run.begin, run.end});
    }
  }
  std::vector<Run> out;
  std::int64_t from = 0;
  for (const std::int64_t to : places) {
    if (to > from) out.push_back({from, to});
    from = to;
  }
  return out;
}

std::string owners_of(const Layout& layout, const Shape& shape, std::span<const std::int64_t> index) {
  const layout::RankSet ranks = layout::owners(layout, shape, index);
  std::string out;
  for (std::int64_t i = 0; i < ranks.size(); ++i) out += fmt::format("{}{}", i == 0 ? "" : " ", ranks.at(i).value());
  return out;
}

std::string run_text(const Run& run) { return fmt::format("{}:{}", run.begin, run.end); }

std::string drawn(const std::vector<std::vector<std::string>>& table) {
  std::vector<std::size_t> widths(table[0].size(), 0);
  for (const auto& row : table) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string out;
  for (const auto& row : table) {
    std::string line = " ";
    for (std::size_t c = 0; c < row.size(); ++c)
      line += fmt::format(" {:<{}}{}", row[c], widths[c], c == 0 ? " |" : "");
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace

std::string visualize(const Tensor& tensor) {
  TESSERA_CHECK(tensor, "visualize: no tensor was given");
  std::string out = tensor::describe(tensor) + "\n";
  if (!tensor.has_layout()) return out + "  plain: this rank has all of its own\n";
  const Layout& layout = tensor.layout();
  const Shape& shape = tensor.shape();
  TESSERA_CHECK(shape.ndim() <= 2, "visualize draws tensors of up to two dimensions, not ", tensor::describe(tensor),
                "; select() or view() one");
  TESSERA_CHECK(layout.mesh().size() <= kMostRanks, "visualize draws up to ", kMostRanks, " ranks, not those of ",
                layout.mesh().text());
  const std::vector<Run> whole = {{0, 1}};  // of a dimension that is not there
  const std::vector<Run> rows = shape.ndim() > 0 ? pieces_of(layout, shape, 0) : whole;
  const std::vector<Run> columns = shape.ndim() > 1 ? pieces_of(layout, shape, 1) : whole;
  TESSERA_CHECK(rows.size() * columns.size() <= kMostCells, "visualize: ", tensor::describe(tensor), " has ",
                rows.size() * columns.size(), " pieces, more than the ", kMostCells, " that can be read");
  std::vector<std::vector<std::string>> table;
  if (shape.ndim() > 1) {
    auto& head = table.emplace_back(std::vector<std::string>{""});
    for (const Run& column : columns) head.push_back(run_text(column));
  }
  for (const Run& row : rows) {
    auto& line = table.emplace_back(std::vector<std::string>{shape.ndim() > 0 ? run_text(row) : "scalar"});
    for (const Run& column : columns) {
      const std::int64_t index[] = {row.begin, column.begin};
      line.push_back(owners_of(layout, shape, std::span(index).first(shape.size())));
    }
  }
  out += table.empty() ? "  no elements\n" : drawn(table);
  for (const layout::PartialAxis& partial : layout.partials()) {
    out += fmt::format("  partial: the {} over {} makes the values\n", to_string(partial.reduction),
                       layout.mesh().axis(partial.by.axis).name);
  }
  return out;
}

}  // namespace tessera::shard
