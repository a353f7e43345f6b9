// The dimensions of a tensor are divided where the indices of some rank begin or end. A cell of the drawing is the box
// between two such boundaries in every dimension. Every rank holds all of it or nothing.
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

constexpr std::int64_t kMaxRanks = 256;
constexpr std::size_t kMaxCells = 1024;

struct Run {
  std::int64_t begin;
  std::int64_t end;
};

// Returns the indices of a map as maximal runs.
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

// Returns the chunks of one dimension.
std::vector<Run> chunks_of(const Layout& layout, const Shape& shape, int dim) {
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

// Returns "0-3,8": ranks in order, three or more consecutive ones as a range.
std::string ranks_text(const std::vector<std::int64_t>& ranks) {
  std::string out;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - i < 3) end = i + 1;
    out += fmt::format("{}{}", out.empty() ? "" : ",", ranks[i]);
    if (end > i + 1) out += fmt::format("-{}", ranks[end - 1]);
    i = end;
  }
  return out;
}

std::string owners_of(const Layout& layout, const Shape& shape, std::span<const std::int64_t> index) {
  const layout::RankSet owners = layout::owners(layout, shape, index);
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < owners.size(); ++i) ranks.push_back(owners.at(i).value());
  return ranks_text(ranks);
}

std::string run_text(const Run& run) { return fmt::format("{}:{}", run.begin, run.end); }

using Table = std::vector<std::vector<std::string>>;

std::string drawn(const Table& table) {
  std::vector<std::size_t> widths(table[0].size(), 0);
  for (const auto& row : table) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string out;
  for (const auto& row : table) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c)
      line += fmt::format("{}{:<{}}", c == 1 ? " | " : "  ", row[c], widths[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

// Returns the dimensions of the drawing: all of up to two, otherwise the sharded ones.
std::vector<int> drawn_dims(const Tensor& tensor) {
  std::vector<int> dims;
  for (int d = 0; d < tensor.ndim(); ++d) {
    if (tensor.ndim() <= 2 || !tensor.layout().shardings(d).empty()) dims.push_back(d);
  }
  TESSERA_CHECK(dims.size() <= 2, "visualize: at most two dimensions may be sharded, got ", tensor::describe(tensor),
                "; select() along one");
  return dims;
}

Table table_of(const Tensor& tensor, const std::vector<int>& dims) {
  const Layout& layout = tensor.layout();
  const Shape& shape = tensor.shape();
  const std::vector<Run> whole = {{0, 1}};  // of an absent dimension
  const std::vector<Run> rows = !dims.empty() ? chunks_of(layout, shape, dims[0]) : whole;
  const std::vector<Run> columns = dims.size() > 1 ? chunks_of(layout, shape, dims[1]) : whole;
  TESSERA_CHECK(rows.size() * columns.size() <= kMaxCells, "visualize: must have at most ", kMaxCells, " blocks, got ",
                rows.size() * columns.size(), " for ", tensor::describe(tensor));
  Table table;
  std::string corner;
  if (tensor.ndim() > 2) corner = fmt::format("dim {}", fmt::join(dims, " \\ dim "));
  if (dims.size() > 1 || (tensor.ndim() > 2 && !dims.empty())) {
    auto& head = table.emplace_back(std::vector<std::string>{corner});
    for (const Run& column : columns) head.push_back(dims.size() > 1 ? run_text(column) : "");
  }
  for (const Run& row : rows) {
    const std::string name = tensor.ndim() == 0 ? "scalar" : dims.empty() ? "all" : run_text(row);
    auto& line = table.emplace_back(std::vector<std::string>{name});
    for (const Run& column : columns) {
      SmallVector<std::int64_t, 8> index;
      for (int d = 0; d < tensor.ndim(); ++d) index.push_back(0);
      if (!dims.empty()) index[static_cast<std::size_t>(dims[0])] = row.begin;
      if (dims.size() > 1) index[static_cast<std::size_t>(dims[1])] = column.begin;
      line.push_back(owners_of(layout, shape, index));
    }
  }
  return table;
}

// Returns the ranks without elements.
std::string without_elements(const Layout& layout, const Shape& shape) {
  std::vector<std::int64_t> ranks;
  const layout::RankSet all = layout.mesh().ranks();
  for (std::int64_t r = 0; r < all.size(); ++r) {
    if (layout::local_shape(layout, shape, all.at(r)).is_empty()) ranks.push_back(all.at(r).value());
  }
  return ranks.empty() ? "" : fmt::format("  empty shards: {}\n", ranks_text(ranks));
}

std::string partial_text(const Layout& layout) {
  std::string out;
  for (const Reduction reduction :
       {Reduction::kSum, Reduction::kAvg, Reduction::kMin, Reduction::kMax, Reduction::kProd}) {
    std::vector<std::string> names;
    for (const layout::PartialAxis& partial : layout.partials()) {
      const layout::Axis& axis = layout.mesh().axis(partial.by.axis);
      if (partial.reduction != reduction) continue;
      names.push_back(partial.by.size == axis.size
                          ? axis.name
                          : fmt::format("{} of the {} of {}", partial.by.size, axis.size, axis.name));
    }
    if (!names.empty()) {
      out += fmt::format("  partial: {} over {}\n", to_string(reduction), fmt::join(names, " and "));
    }
  }
  return out;
}

}  // namespace

std::string visualize(const Tensor& tensor) {
  TESSERA_CHECK(tensor, "visualize: tensor must not be empty");
  std::string out = tensor::describe(tensor) + "\n";
  if (!tensor.has_layout()) return out + "  plain: no layout\n";
  const Layout& layout = tensor.layout();
  TESSERA_CHECK(layout.mesh().size() <= kMaxRanks, "visualize: must have at most ", kMaxRanks, " ranks, got mesh ",
                layout.mesh().text());
  const std::vector<int> dims = drawn_dims(tensor);
  if (tensor.numel() == 0) return out + "  no elements\n";
  return out + drawn(table_of(tensor, dims)) + without_elements(layout, tensor.shape()) + partial_text(layout);
}

}  // namespace tessera::shard
