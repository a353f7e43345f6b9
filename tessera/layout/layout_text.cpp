// Text form of layouts: one placement per mesh axis,
//
//   placements  { axis {, axis} } or { name: axis {, name: axis} }, the braces are optional; without names, one per
//   mesh
//               axis; with names, axes that are not named replicate
//   axis        what, or size:what {* size:what} for the sub-axes of an axis, major to minor
//   what        Shard(dim {, order=n | blocks=n | sizes=n/n/n}), Replicate(), Partial([reduction])
//               short: S0, S(0), R, P, P(max)
#include <algorithm>
#include <map>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/base/nearest.h"
#include "tessera/layout/detail/layout_state.h"
#include "tessera/layout/detail/mesh_text.h"

namespace tessera::layout {
namespace detail {
namespace {

using tessera::detail::concat;

// The placement of a sub-axis, with its text.
struct Doing {
  SubAxis part;
  std::string text;
};

std::string shard_text(int dim, std::size_t place, bool shows_order, const DimShardings& shardings) {
  std::string text = concat("Shard(", dim);
  if (shows_order) text += concat(", order=", place);
  if (shardings.shardings[place].blocks > 1) text += concat(", blocks=", shardings.shardings[place].blocks);
  if (place == 0 && shardings.sizes) {
    text += ", sizes=";
    for (std::size_t i = 0; i < shardings.sizes->size(); ++i) text += concat(i > 0 ? "/" : "", (*shardings.sizes)[i]);
  }
  return text + ")";
}

// Returns all placements except replicated ones, by axis, major to minor.
std::vector<Doing> doings(const LayoutParts& parts) {
  std::vector<Doing> all;
  for (std::size_t d = 0; d < parts.dims.size(); ++d) {
    const DimShardings& dim = parts.dims[d];
    const bool is_in_order = std::is_sorted(dim.shardings.begin(), dim.shardings.end(),
                                            [](const Sharding& a, const Sharding& b) { return a.by < b.by; });
    for (std::size_t i = 0; i < dim.shardings.size(); ++i) {
      all.push_back({dim.shardings[i].by, shard_text(static_cast<int>(d), i, !is_in_order, dim)});
    }
  }
  for (const PartialAxis& partial : parts.partials) {
    const bool is_sum = partial.reduction == Reduction::kSum;
    all.push_back({partial.by, concat("Partial(", is_sum ? "" : to_string(partial.reduction), ")")});
  }
  std::sort(all.begin(), all.end(), [](const Doing& a, const Doing& b) { return a.part < b.part; });
  return all;
}

// A parsed split, with its explicit position among the splits of its dimension, if any.
struct ReadCut {
  Sharding sharding;
  bool has_blocks = false;
  std::optional<std::int64_t> order;
  std::shared_ptr<const std::vector<std::int64_t>> sizes;
  std::size_t at = 0;  // column
};

class PlacementReader {
 public:
  PlacementReader(TextReader& reader, const Mesh& mesh) : reader_(reader), mesh_(mesh) {}

  LayoutParts read() {
    reader_.skip_blanks();
    const bool has_braces = reader_.take('{');
    reader_.skip_blanks();
    const std::size_t at = reader_.place();
    int count = 0;
    if (is_named() || (has_braces && reader_.peek() == '}')) {
      read_named_axes(has_braces);
      count = mesh_.ndim();
    } else if (!is_end(has_braces)) {
      do {
        reader_.skip_blanks();
        if (count >= mesh_.ndim()) {
          reader_.fail("mesh ", mesh_.text(), " has ", mesh_.ndim(), " axes; specify one placement per axis");
        }
        read_axis(count++);
        reader_.skip_blanks();
      } while (reader_.take(','));
    }
    if (has_braces) reader_.expect('}');
    reader_.skip_blanks();
    if (!reader_.at_end()) reader_.fail("expected ", has_braces ? "the end" : "',' and the placement of the next axis");
    if (count != mesh_.ndim()) {
      reader_.fail_at(at, "mesh ", mesh_.text(), " has ", mesh_.ndim(), " axes, got ", count,
                      " placements; specify one per axis");
    }
    for (auto& [dim, shardings] : shardings_) order(dim, shardings);
    return std::move(parts_);
  }

 private:
  [[nodiscard]] bool is_end(bool has_braces) const { return has_braces ? reader_.peek() == '}' : reader_.at_end(); }

  // Returns true if a name and a colon are next.
  [[nodiscard]] bool is_named() const {
    TextReader ahead = reader_;
    const bool has_name = !ahead.take_name().empty();
    ahead.skip_blanks();
    return has_name && ahead.peek() == ':';
  }

  // Reads "tp: Shard(0), dp: Partial()" in any order. Axes without a name replicate.
  void read_named_axes(bool has_braces) {
    if (is_end(has_braces)) return;
    std::vector<bool> is_read(static_cast<std::size_t>(mesh_.ndim()));
    do {
      reader_.skip_blanks();
      const std::size_t at = reader_.place();
      const std::string name(reader_.take_name());
      reader_.skip_blanks();
      reader_.expect(':');
      reader_.skip_blanks();
      const auto axis = static_cast<std::size_t>(mesh_.index_of(name));
      if (is_read[axis]) reader_.fail_at(at, "axis '", name, "' is named twice");
      is_read[axis] = true;
      read_axis(static_cast<int>(axis));
      reader_.skip_blanks();
    } while (reader_.take(','));
  }

  void read_axis(int index) {
    const Axis& axis = mesh_.axis(index);
    if (!reader_.has_digit()) return read_what({index, 1, axis.size});
    const std::size_t at = reader_.place();
    std::int64_t before = 1;
    do {
      const std::size_t part_at = reader_.place();
      const std::int64_t size = reader_.number("size of a sub-axis");
      if (size < 1 || axis.size / before % size != 0) {
        reader_.fail_at(part_at, "sub-axis of ", size, " must divide the rest of axis '", axis.name, "', ",
                        axis.size / before);
      }
      reader_.expect(':');
      read_what({index, before, size});
      before *= size;
    } while (reader_.take('*'));
    if (before != axis.size) {
      reader_.fail_at(at, "the sub-axes of axis '", axis.name, "' have ", before, " ranks, but the axis has ",
                      axis.size);
    }
  }

  void read_what(const SubAxis& part) {
    static constexpr std::string_view kKinds[] = {"Shard", "Replicate", "Partial", "S", "R", "P"};
    const std::size_t at = reader_.place();
    const std::string_view word = reader_.take_letters();
    if (word == "S" || word == "Shard") {
      read_shard(part, at);
    } else if (word == "R" || word == "Replicate") {
      if (reader_.take('(')) reader_.expect(')');
    } else if (word == "P" || word == "Partial") {
      PartialAxis partial{part, Reduction::kSum};
      if (reader_.take('(')) {
        const std::size_t reduction_at = reader_.place();
        const std::string_view reduction = reader_.take_letters();
        if (!reduction.empty()) partial.reduction = read_reduction(reduction, reduction_at);
        reader_.expect(')');
      }
      parts_.partials.push_back(partial);
    } else {
      reader_.fail_at(at, "expected the placement of axis '", mesh_.axis(part.axis).name, "'",
                      did_you_mean(word.substr(0, 32), kKinds), "; use Shard(0), Replicate(), Partial(), or S0, R, P");
    }
  }

  Reduction read_reduction(std::string_view word, std::size_t at) {
    static constexpr Reduction kAll[] = {Reduction::kSum, Reduction::kAvg, Reduction::kMin, Reduction::kMax,
                                         Reduction::kProd};
    std::vector<std::string_view> names;
    for (const Reduction each : kAll) {
      if (to_string(each) == word) return each;
      names.push_back(to_string(each));
    }
    reader_.fail_at(at, "unknown reduction", did_you_mean(word.substr(0, 32), names), "; must be one of ", names);
  }

  int read_dim() {
    const std::size_t at = reader_.place();
    const std::int64_t dim = reader_.number("sharded dimension, counted from 0");
    if (dim >= kMaxDims) reader_.fail_at(at, "dimension must be below ", kMaxDims);
    return static_cast<int>(dim);
  }

  void read_shard(const SubAxis& part, std::size_t at) {
    ReadCut read{{part, 1}, false, {}, {}, at};
    if (reader_.has_digit()) {
      shardings_[read_dim()].push_back(read);
      return;
    }
    reader_.expect('(');
    reader_.skip_blanks();
    const int dim = read_dim();
    reader_.skip_blanks();
    while (reader_.take(',')) {
      reader_.skip_blanks();
      read_attribute(read);
      reader_.skip_blanks();
    }
    reader_.expect(')');
    shardings_[dim].push_back(std::move(read));
  }

  void read_attribute(ReadCut& read) {
    static constexpr std::string_view kNames[] = {"order", "blocks", "sizes"};
    const std::size_t at = reader_.place();
    const std::string_view name = reader_.take_letters();
    const bool is_known = std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
    if (!is_known) {
      reader_.fail_at(at, "expected order=, blocks= or sizes=", did_you_mean(name.substr(0, 32), kNames));
    }
    reader_.expect('=');
    const bool is_twice = name == "order"    ? read.order.has_value()
                          : name == "blocks" ? read.has_blocks
                                             : read.sizes != nullptr;
    if (is_twice) reader_.fail_at(at, name, " appears twice");
    if (name == "order") {
      read.order = reader_.number("position among the axes of the dimension, counted from 0");
    } else if (name == "blocks") {
      read.has_blocks = true;
      read.sharding.blocks = reader_.number("number of blocks");
      if (read.sharding.blocks < 1) reader_.fail_at(at, "blocks must be at least 1");
    } else {
      std::vector<std::int64_t> sizes;
      do {
        sizes.push_back(reader_.number("size of a shard"));
      } while (reader_.take('/'));
      read.sizes = std::make_shared<const std::vector<std::int64_t>>(std::move(sizes));
    }
  }

  // Splits with an explicit position take it; the others take the remaining positions, in the order of axes.
  void order(int dim, std::vector<ReadCut>& shardings) {
    std::ranges::sort(shardings, {}, [](const ReadCut& each) { return each.sharding.by; });
    std::vector<const ReadCut*> places(shardings.size(), nullptr);
    for (const ReadCut& sharding : shardings) {
      if (!sharding.order) continue;
      if (*sharding.order >= static_cast<std::int64_t>(shardings.size())) {
        reader_.fail_at(sharding.at, "order must be in [0, ", shardings.size(), "), got order=", *sharding.order,
                        " for dimension ", dim);
      }
      const ReadCut*& place = places[static_cast<std::size_t>(*sharding.order)];
      if (place != nullptr)
        reader_.fail_at(sharding.at, "two axes of dimension ", dim, " have order=", *sharding.order);
      place = &sharding;
    }
    std::size_t next = 0;
    for (const ReadCut& sharding : shardings) {
      if (sharding.order) continue;
      while (places[next] != nullptr) ++next;
      places[next] = &sharding;
    }
    if (parts_.dims.size() <= static_cast<std::size_t>(dim)) parts_.dims.resize(static_cast<std::size_t>(dim) + 1);
    DimShardings& made = parts_.dims[static_cast<std::size_t>(dim)];
    for (std::size_t i = 0; i < places.size(); ++i) {
      made.shardings.push_back(places[i]->sharding);
      if (!places[i]->sizes) continue;
      if (i > 0) reader_.fail_at(places[i]->at, "sizes= is valid only for the first axis of a dimension");
      made.sizes = places[i]->sizes;
    }
  }

  TextReader& reader_;
  const Mesh& mesh_;
  LayoutParts parts_;
  std::map<int, std::vector<ReadCut>> shardings_;  // by dimension
};

}  // namespace

std::string placements_text(const Mesh& mesh, const LayoutParts& parts) {
  const std::vector<Doing> all = doings(parts);
  std::string text = "{";
  auto next = all.begin();
  for (int i = 0; i < mesh.ndim(); ++i) {
    const std::int64_t size = mesh.axis(i).size;
    if (i > 0) text += ", ";
    if (next == all.end() || next->part.axis != i) {
      text += "Replicate()";
      continue;
    }
    if (next->part.size == size) {
      text += (next++)->text;
      continue;
    }
    std::int64_t from = 1;
    const auto add = [&](std::int64_t part_size, std::string_view what) {
      if (part_size > 1) text += concat(from > 1 ? "*" : "", part_size, ':', what);
      from *= part_size;
    };
    for (; next != all.end() && next->part.axis == i; ++next) {
      add(next->part.before / from, "Replicate()");
      add(next->part.size, next->text);
    }
    add(size / from, "Replicate()");
  }
  return text + "}";
}

LayoutParts read_placements(TextReader& reader, const Mesh& mesh) { return PlacementReader(reader, mesh).read(); }

}  // namespace detail

Layout Layout::parse(const Mesh& mesh, std::string_view text) {
  TESSERA_CHECK(mesh, "layout: mesh must not be empty; assign one first");
  detail::TextReader reader("layout", text);
  return create(mesh, detail::read_placements(reader, mesh));
}

Layout Layout::parse(std::string_view text) {
  detail::TextReader reader("layout", text);
  detail::read_mesh(reader);
  const std::string_view mesh_part = reader.done();
  const std::size_t end = mesh_part.find_last_not_of(" \t");
  const Mesh mesh = Mesh::parse(mesh_part.substr(0, end == std::string_view::npos ? 0 : end + 1));
  return create(mesh, detail::read_placements(reader, mesh));
}

}  // namespace tessera::layout
