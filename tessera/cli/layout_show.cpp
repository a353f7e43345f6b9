// `tessera layout show`: the canonical form of a layout, the shard of each rank for a shape, and a drawing of the
// owners. All of it uses closed forms: a mesh of 100,000 ranks shows its first rows as quickly as one of 8.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/cli/layout_verbs.h"
#include "tessera/cli/verb.h"
#include "tessera/layout/arithmetic.h"

namespace tessera::cli {
namespace {

using layout::IndexMap;
using layout::Layout;
using layout::RankSet;
using nlohmann::ordered_json;

struct ShowOptions {
  std::string mesh;
  std::string layout;
  std::optional<std::string> shape;
  std::vector<std::int32_t> ranks;
  std::int64_t most = 32;
  bool json = false;
};

// The layout and shape to show.
struct Shown {
  Layout layout;
  std::optional<Shape> shape;
  std::vector<Rank> ranks;
  std::int64_t most = 0;
};

// Splits "{Shard(0, order=1), Replicate()}" into a text per axis, ignoring commas inside parentheses.
std::vector<std::string> placements_of(const Layout& layout) {
  std::vector<std::string> all;
  int depth = 0;
  std::string one;
  const std::string& text = layout.placements_text();
  for (const char letter : text.substr(1, text.size() - 2)) {
    if (letter == '(') ++depth;
    if (letter == ')') --depth;
    if (letter == ',' && depth == 0) {
      all.push_back(std::exchange(one, {}));
    } else if (letter != ' ' || !one.empty()) {
      one += letter;
    }
  }
  if (!one.empty()) all.push_back(one);
  return all;
}

// Returns "3:6", or "3:6+6x4" for four such runs, 6 apart.
std::string map_text(const IndexMap& map) {
  std::string text = fmt::format("{}:{}", map.offset, map.offset + map.block);
  for (std::size_t i = map.levels.size(); i-- > 0;) {
    text += fmt::format("+{}x{}", map.levels[i].stride, map.levels[i].count);
  }
  return text;
}

// Returns for example "0-3", "0,4" or "0,2,4,6,...,14".
std::string ranks_text(const RankSet& set) {
  constexpr std::int64_t kMaxNamed = 6;
  const std::int64_t count = set.size();
  const auto name = [&](std::int64_t place) { return std::to_string(set.at(place).value()); };
  if (count > 2 && set.steps.size() == 1 && set.steps[0].stride == 1) return name(0) + "-" + name(count - 1);
  std::string text = name(0);
  for (std::int64_t i = 1; i < std::min(count, kMaxNamed); ++i) {
    const bool is_gap = count > kMaxNamed && i == kMaxNamed - 2;
    text += "," + (is_gap ? "..." : name(i == kMaxNamed - 1 ? count - 1 : i));
  }
  return text;
}

// Positions where the owners of the indices of a dimension change, at most `most` intervals from 0 on.
struct Pieces {
  std::vector<std::int64_t> starts;  // and the end of the last interval
  bool is_cut_short = false;
};

Pieces pieces_of(const Shown& shown, std::size_t dim) {
  Pieces pieces{{0}, false};
  const std::int64_t size = (*shown.shape)[dim];
  std::vector<std::int64_t> index(shown.shape->size(), 0);
  while (pieces.starts.back() < size) {
    if (static_cast<std::int64_t>(pieces.starts.size()) > shown.most) {
      pieces.is_cut_short = true;
      break;
    }
    index[dim] = pieces.starts.back();
    const Rank owner = owners(shown.layout, *shown.shape, index).at(0);
    const IndexMap map = index_map(shown.layout, *shown.shape, static_cast<int>(dim), owner);
    pieces.starts.push_back(index[dim] + map.block - map.local(index[dim]).value() % map.block);
  }
  return pieces;
}

// A grid of the owners with headings; a 1-D tensor is one row.
struct Grid {
  std::vector<std::string> columns;
  std::vector<std::string> rows;
  std::vector<std::vector<std::string>> cells;
  std::string note;
};

std::optional<Grid> grid_of(const Shown& shown) {
  const std::size_t ndim = shown.shape->size();
  if (ndim == 0 || ndim > 2 || shown.shape->is_empty()) return std::nullopt;
  const Pieces across = pieces_of(shown, ndim - 1);
  const Pieces down = ndim == 2 ? pieces_of(shown, 0) : Pieces{{0, 1}, false};
  Grid grid;
  for (std::size_t i = 0; i + 1 < across.starts.size(); ++i) {
    grid.columns.push_back(fmt::format("{}:{}", across.starts[i], across.starts[i + 1]));
  }
  for (std::size_t i = 0; i + 1 < down.starts.size(); ++i) {
    grid.rows.push_back(ndim == 2 ? fmt::format("{}:{}", down.starts[i], down.starts[i + 1]) : "all");
    grid.cells.emplace_back();
    for (std::size_t k = 0; k + 1 < across.starts.size(); ++k) {
      std::vector<std::int64_t> index = {across.starts[k]};
      if (ndim == 2) index.insert(index.begin(), down.starts[i]);
      grid.cells.back().push_back(ranks_text(owners(shown.layout, *shown.shape, index)));
    }
  }
  if (across.is_cut_short || down.is_cut_short) {
    grid.note = fmt::format("the first {} shards of a dimension; --most shows more", shown.most);
  }
  return grid;
}

// Draws a frame of characters: cells of equal width, rows below the column headings.
std::string drawn(const Grid& grid, Style style) {
  std::size_t width = 0;
  std::size_t margin = 0;
  for (const std::string& column : grid.columns) width = std::max(width, column.size());
  for (const auto& row : grid.cells) {
    for (const std::string& cell : row) width = std::max(width, cell.size());
  }
  for (const std::string& row : grid.rows) margin = std::max(margin, row.size());
  // Columns that do not fit the terminal are omitted with a note.
  std::size_t columns = grid.columns.size();
  if (style.width > margin + 2) columns = std::clamp<std::size_t>((style.width - margin - 2) / (width + 3), 1, columns);
  const std::string line(width + 2, '-');
  std::string rule = std::string(margin + 1, ' ') + '+';
  for (std::size_t i = 0; i < columns; ++i) rule += line + '+';
  std::string out = std::string(margin + 1, ' ');
  for (std::size_t i = 0; i < columns; ++i) out += fmt::format("  {:^{}}", grid.columns[i], width + 1);
  out.erase(out.find_last_not_of(' ') + 1);
  out += "\n" + rule + "\n";
  for (std::size_t i = 0; i < grid.rows.size(); ++i) {
    out += fmt::format("{:>{}} |", grid.rows[i], margin);
    for (std::size_t k = 0; k < columns; ++k) out += fmt::format(" {:^{}} |", grid.cells[i][k], width);
    out += "\n" + rule + "\n";
  }
  if (columns < grid.columns.size()) {
    out += fmt::format("({} more columns do not fit the terminal)\n", grid.columns.size() - columns);
  }
  return grid.note.empty() ? out : out + "(" + grid.note + ")\n";
}

std::vector<PrintedSection> sections_of(const Shown& shown) {
  const Layout& layout = shown.layout;
  PrintedSection head{"layout",
                      {{"mesh", layout.mesh().text()},
                       {"ranks", std::to_string(layout.mesh().size())},
                       {"placements", layout.placements_text()},
                       {"hash", hash_text(layout.hash())}}};
  if (shown.shape) {
    head.entries.emplace_back("shape", shape_text(*shown.shape));
    head.entries.emplace_back("largest_part", std::to_string(largest_local_numel(layout, *shown.shape)));
  }
  PrintedSection axes{"axis", {}};
  const std::vector<std::string> placements = placements_of(layout);
  for (std::size_t i = 0; i < placements.size(); ++i)
    axes.entries.emplace_back(layout.mesh().axes()[i].name, placements[i]);
  return {head, axes};
}

Table ranks_table(const Shown& shown) {
  Table table{{"RANK"}, {}};
  for (const layout::Axis& axis : shown.layout.mesh().axes()) table.headings.push_back(axis.name);
  table.headings.insert(table.headings.end(), {"ELEMENTS", "HOLDS"});
  for (const Rank rank : shown.ranks) {
    std::vector<std::string> row = {std::to_string(rank.value())};
    const bool is_here = shown.layout.mesh().contains(rank);
    for (std::size_t i = 0; i < shown.layout.mesh().axes().size(); ++i) {
      row.push_back(is_here ? std::to_string(shown.layout.mesh().coordinates(rank)[i]) : "-");
    }
    row.push_back(std::to_string(is_here ? local_shape(shown.layout, *shown.shape, rank).numel() : 0));
    std::string holds;
    for (int dim = 0; dim < shown.shape->ndim(); ++dim) {
      holds += (dim > 0 ? ", " : "") + map_text(index_map(shown.layout, *shown.shape, dim, rank));
    }
    row.push_back(is_here ? "[" + holds + "]" : "nothing: the rank is not in the mesh");
    table.rows.push_back(std::move(row));
  }
  return table;
}

void show_text(const Shown& shown) {
  const Style style = stdout_style();
  std::fputs(to_text(sections_of(shown), style).c_str(), stdout);
  if (!shown.shape) return;
  std::fputs(("\n" + to_text(ranks_table(shown), style)).c_str(), stdout);
  const std::int64_t left = shown.layout.mesh().size() - static_cast<std::int64_t>(shown.ranks.size());
  if (style.is_terminal && left > 0)
    std::printf("(%s more ranks; --most or --rank shows them)\n", std::to_string(left).c_str());
  const auto grid = grid_of(shown);
  if (!grid) return;
  if (style.is_terminal) {
    std::fputs(("\nOwners of each block:\n" + drawn(*grid, style)).c_str(), stdout);
    return;
  }
  Table table{{"OWNERS"}, {}};
  table.headings.insert(table.headings.end(), grid->columns.begin(), grid->columns.end());
  for (std::size_t i = 0; i < grid->rows.size(); ++i) {
    table.rows.push_back({grid->rows[i]});
    table.rows.back().insert(table.rows.back().end(), grid->cells[i].begin(), grid->cells[i].end());
  }
  std::fputs(("\n" + to_text(table, style)).c_str(), stdout);
  if (!grid->note.empty()) std::fprintf(stderr, "tessera: OWNERS shows %s\n", grid->note.c_str());
}

void show_json(const Shown& shown) {
  const layout::Mesh& mesh = shown.layout.mesh();
  ordered_json json = {{"mesh", mesh.text()},
                       {"layout", shown.layout.placements_text()},
                       {"hash", hash_text(shown.layout.hash())},
                       {"axes", ordered_json::array()}};
  const std::vector<std::string> placements = placements_of(shown.layout);
  for (std::size_t i = 0; i < placements.size(); ++i) {
    const layout::Axis& axis = mesh.axes()[i];
    json["axes"].push_back(
        {{"name", axis.name}, {"size", axis.size}, {"link", to_string(axis.link)}, {"placement", placements[i]}});
  }
  if (shown.shape) {
    json["shape"] = std::vector<std::int64_t>(shown.shape->begin(), shown.shape->end());
    json["largest_part_numel"] = largest_local_numel(shown.layout, *shown.shape);
    json["ranks"] = ordered_json::array();
    for (const Rank rank : shown.ranks) {
      ordered_json each = {{"rank", rank.value()}, {"is_on_mesh", mesh.contains(rank)}};
      if (mesh.contains(rank)) {
        const auto coordinates = mesh.coordinates(rank);
        each["coordinates"] = std::vector<std::int64_t>(coordinates.begin(), coordinates.end());
      }
      each["index"] = ordered_json::array();
      for (int dim = 0; dim < shown.shape->ndim(); ++dim) {
        const IndexMap map = index_map(shown.layout, *shown.shape, dim, rank);
        ordered_json levels = ordered_json::array();
        for (const IndexMap::StrideLevel& level : map.levels) {
          levels.push_back({{"count", level.count}, {"stride", level.stride}});
        }
        each["index"].push_back({{"offset", map.offset}, {"block", map.block}, {"levels", levels}});
      }
      json["ranks"].push_back(each);
    }
  }
  print_json(json);
}

Shown read(const ShowOptions& options) {
  Shown shown{read_layout(options.mesh, options.layout), std::nullopt, {}, options.most};
  if (options.shape) {
    shown.shape = read_shape(*options.shape);
    check_fits(shown.layout, *shown.shape);
  }
  for (const std::int32_t rank : options.ranks) shown.ranks.emplace_back(rank);
  if (!options.ranks.empty()) return shown;
  const RankSet all = shown.layout.mesh().ranks();
  for (std::int64_t i = 0; i < std::min(all.size(), options.most); ++i) shown.ranks.push_back(all.at(i));
  return shown;
}

}  // namespace

Body declare_layout_show(Command& command) {
  const auto options = std::make_shared<ShowOptions>();
  command.add("--mesh", &options->mesh,
              "Axes of the mesh, as in dp=2,tp=4 (default: the mesh that the layout begins with)");
  command.add("--layout", &options->layout, "One placement per axis, as in \"S0,R\"", {.is_required = true});
  command.add("--shape", &options->shape, "Shape of a tensor, as in 4096x512 (default: show only the layout)");
  command.add("--rank", &options->ranks, "Ranks to show (default: the first --most)", {.separator = ','});
  command.add("--most", &options->most, "Maximum number of ranks, and of shards of a dimension, to show",
              {.shows_default = true, .range = Range{1, 2'147'483'648}});
  command.add("--json", &options->json, "Print JSON");
  command.footer =
      "HOLDS is a range of indices per dimension: 3:6 is 3, 4 and 5; 3:6+6x4 is four such ranges, 6 apart.\n"
      "Tensors of one or two dimensions are drawn with the owners of each block. All ranks own a partial tensor.\n"
      "Without a terminal: lines of name and value, then two tables, tab-separated, with empty lines in between.\n"
      "  tessera layout show --mesh dp=2,tp=4 --shape 8x6 --layout \"S0,S1\"\n"
      "  tessera layout show --mesh pp=10,dp=1250,tp=8 --shape 4096x512 --layout \"R,S0,S1\" --rank 99999\n"
      "  tessera layout show --layout \"dp=2,tp=4 {Shard(0, order=1), Shard(0, order=0)}\" --shape 16";
  return [options] {
    const Shown shown = read(*options);
    options->json ? show_json(shown) : show_text(shown);
    return static_cast<int>(kDone);
  };
}

}  // namespace tessera::cli
