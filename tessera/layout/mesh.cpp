#include "tessera/layout/mesh.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "tessera/base/checked.h"
#include "tessera/base/error.h"
#include "tessera/base/nearest.h"
#include "tessera/layout/detail/mesh_text.h"
#include "tessera/layout/detail/rank_steps.h"

namespace tessera::layout {
namespace {

constexpr std::int64_t kMaxRanks = std::int64_t{1} << 31;

// Converts the factors of an axis to the canonical form: at least one factor,
// and factors that form one progression merged.
void canonicalize(Axis& axis) {
  SmallVector<RankStep, 2> parts;
  for (const RankStep& part : axis.parts) detail::add_step(parts, part);
  if (parts.empty()) parts.push_back({1, 1});
  axis.parts = parts;
  std::sort(axis.options.begin(), axis.options.end());
  for (std::size_t i = 1; i < axis.options.size(); ++i) {
    TESSERA_CHECK(axis.options[i - 1].first != axis.options[i].first, "mesh: axis '", axis.name, "': option '",
                  axis.options[i].first, "' appears twice");
  }
}

void check_axes(std::span<const Axis> axes) {
  TESSERA_CHECK(axes.size() <= static_cast<std::size_t>(Mesh::kMaxAxes), "mesh: number of axes must be at most ",
                Mesh::kMaxAxes, ", got ", axes.size(), "; flatten some of them");
  std::int64_t ranks = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Axis& axis = axes[i];
    detail::check_axis_text(axis);
    for (std::size_t k = 0; k < i; ++k) {
      TESSERA_CHECK(axes[k].name != axis.name, "mesh: names of axes must be distinct, got '", axis.name, "' twice");
    }
    TESSERA_CHECK(axis.size >= 1 && axis.size <= kMaxRanks, "mesh: size of axis '", axis.name,
                  "' must be in [1, 2^31], got ", axis.size);
    TESSERA_CHECK(ranks <= kMaxRanks / axis.size, "mesh: must have at most 2^31 ranks, exceeded at axis '", axis.name,
                  "'");
    ranks *= axis.size;
    for (const RankStep& part : axis.parts) {
      TESSERA_CHECK(part.stride >= 1 && part.stride < kMaxRanks, "mesh: stride of axis '", axis.name,
                    "' must be in [1, 2^31), got ", part.stride);
    }
  }
}

std::vector<std::string> names_of(std::span<const Axis> axes) {
  std::vector<std::string> names;
  for (const Axis& axis : axes) names.push_back(axis.name);
  return names;
}

// Removes `size` ranks from the minor end of `parts`. Returns false if the factors do not nest with `size`.
bool take_minor(std::vector<RankStep>& parts, std::int64_t size, SmallVector<RankStep, 2>& taken) {
  std::vector<RankStep> reversed;
  while (size > 1) {
    if (parts.empty()) return false;
    RankStep& part = parts.back();
    if (size % part.size == 0) {
      size /= part.size;
      reversed.push_back(part);
      parts.pop_back();
    } else if (part.size % size == 0) {
      reversed.push_back({size, part.stride});
      part = {part.size / size, part.stride * size};
      size = 1;
    } else {
      return false;
    }
  }
  std::reverse(reversed.begin(), reversed.end());
  taken.assign(reversed);
  return true;
}

}  // namespace

std::int64_t RankSet::size() const {
  std::int64_t count = 1;
  for (const RankStep& step : steps) count *= step.size;
  return count;
}

Rank RankSet::at(std::int64_t place) const {
  TESSERA_CHECK(place >= 0 && place < size(), "rank set: index must be in [0, ", size(), "), got ", place);
  std::int64_t rank = first;
  for (std::size_t i = steps.size(); i-- > 0;) {
    rank += place % steps[i].size * steps[i].stride;
    place /= steps[i].size;
  }
  return Rank(static_cast<std::int32_t>(rank));
}

std::int64_t RankSet::place_of(Rank rank) const {
  std::int64_t rest = rank.value() - first;
  if (rest < 0) return -1;
  std::int64_t place = 0;
  std::int64_t below = std::numeric_limits<std::int64_t>::max();
  for (std::size_t done = 0; done < steps.size(); ++done) {  // strides nest: divide by the largest first
    std::size_t next = steps.size();
    std::int64_t weight = 1;
    std::int64_t weight_of_next = 1;
    for (std::size_t i = steps.size(); i-- > 0;) {
      if (steps[i].stride < below && (next == steps.size() || steps[i].stride > steps[next].stride)) {
        next = i;
        weight_of_next = weight;
      }
      weight *= steps[i].size;
    }
    if (next == steps.size()) return -1;
    const RankStep& step = steps[next];
    below = step.stride;
    const std::int64_t coordinate = rest / step.stride;
    if (coordinate >= step.size) return -1;
    rest -= coordinate * step.stride;
    place += coordinate * weight_of_next;
  }
  return rest == 0 ? place : -1;
}

// A factor of an axis for the computation of coordinates: ranks are divided by the largest stride first.
struct PlacedPart {
  std::int64_t stride = 1;
  std::int64_t size = 1;
  std::int64_t weight = 1;  // of its coordinate in the coordinate of the axis
  int axis = 0;
};

struct Mesh::State {
  MeshId id;
  std::vector<Axis> axes;
  std::int64_t first = 0;
  std::int64_t size = 1;
  bool is_dense = true;           // the ranks are first to first + size - 1
  std::vector<PlacedPart> parts;  // by stride, the largest first
  std::string text;

  State(std::vector<Axis> of_axes, std::int64_t first_rank) : axes(std::move(of_axes)), first(first_rank) {
    for (std::size_t i = 0; i < axes.size(); ++i) {
      std::int64_t weight = axes[i].size;
      for (const RankStep& part : axes[i].parts) {
        weight /= part.size;
        if (part.size > 1) parts.push_back({part.stride, part.size, weight, static_cast<int>(i)});
      }
      size *= axes[i].size;
    }
    std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.stride > b.stride; });
    check_nesting();
    text = detail::mesh_text(axes, first);
  }

  // Calls `store(axis, coordinate)` for each factor. Returns false if the rank is outside the mesh.
  template <class Store>
  bool locate(Rank rank, Store store) const {
    std::int64_t rest = rank.value() - first;
    if (rest < 0) return false;
    for (const PlacedPart& part : parts) {
      const std::int64_t coordinate = rest / part.stride;
      if (coordinate >= part.size) return false;
      rest -= coordinate * part.stride;
      store(part.axis, coordinate * part.weight);
    }
    return rest == 0;
  }

 private:
  void check_nesting() {
    std::int64_t extent = 1;  // of all smaller strides
    for (std::size_t i = parts.size(); i-- > 0;) {
      const PlacedPart& part = parts[i];
      const std::string& name = axes[static_cast<std::size_t>(part.axis)].name;
      TESSERA_CHECK(part.stride % extent == 0, "mesh: stride of axis '", name, "' must be a multiple of ", extent,
                    ", the extent of the smaller strides, got ", part.stride);
      is_dense = is_dense && part.stride == extent;
      extent = part.stride * part.size;  // both below 2^31
    }
    TESSERA_CHECK(first >= 0 && first < kMaxRanks, "mesh: first rank must be in [0, 2^31), got ", first);
    std::int64_t last = first;
    for (const PlacedPart& part : parts) last += (part.size - 1) * part.stride;
    TESSERA_CHECK(last < kMaxRanks, "mesh: last rank must be below 2^31, got ", last);
  }
};

Mesh Mesh::intern(std::vector<Axis> axes, std::int64_t first) {
  check_axes(axes);
  for (Axis& axis : axes) canonicalize(axis);
  auto made = std::make_unique<State>(std::move(axes), first);

  // Never destroyed: meshes, also in static objects, live as long as the process.
  static auto& mutex = *new std::mutex;
  static auto& table = *new std::unordered_map<std::string_view, std::unique_ptr<State>>;
  const std::lock_guard lock(mutex);
  const auto found = table.find(made->text);
  if (found != table.end()) return Mesh(found->second.get());
  made->id = MeshId(static_cast<std::uint32_t>(table.size() + 1));
  const State* state = made.get();
  table.emplace(state->text, std::move(made));
  return Mesh(state);
}

Mesh Mesh::create(std::vector<AxisSpec> axes, Rank first) {
  std::vector<Axis> made;
  for (AxisSpec& spec : axes) made.push_back({std::move(spec.name), spec.size, {}, spec.link, std::move(spec.options)});
  check_axes(made);
  detail::make_row_major(made);
  return intern(std::move(made), first.value());
}

Mesh Mesh::parse(std::string_view text) {
  detail::TextReader reader("mesh", text);
  detail::MeshText read = detail::read_mesh(reader);
  if (!reader.at_end()) reader.fail("expected ',' and another axis, or the end");
  for (const Axis& axis : read.axes) {
    if (!axis.parts.empty()) return intern(std::move(read.axes), read.first);
  }
  check_axes(read.axes);
  detail::make_row_major(read.axes);
  return intern(std::move(read.axes), read.first);
}

const Mesh::State& Mesh::state() const {
  TESSERA_CHECK(state_ != nullptr, "mesh: handle must not be empty; assign a mesh first");
  return *state_;
}

MeshId Mesh::id() const { return state().id; }
int Mesh::ndim() const { return static_cast<int>(state().axes.size()); }
std::span<const Axis> Mesh::axes() const { return state().axes; }
std::int64_t Mesh::size() const { return state().size; }
const std::string& Mesh::text() const { return state().text; }

const Axis& Mesh::axis(int index) const {
  const auto all = axes();
  TESSERA_CHECK(index >= 0 && index < ndim(), "mesh ", text(), ": axis must be in [0, ", ndim(), "), got ", index);
  return all[static_cast<std::size_t>(index)];
}

int Mesh::index_of(std::string_view name) const {
  const auto all = axes();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) return static_cast<int>(i);
  }
  TESSERA_THROW(InvalidArgument, "mesh ", text(), " has no axis '", detail::shown(name), "'",
                did_you_mean(name.substr(0, 64), names_of(all)), "; must be one of ", names_of(all));
}

RankSet Mesh::ranks() const {
  RankSet set{state().first, {}};
  for (const Axis& axis : axes()) {
    for (const RankStep& part : axis.parts) detail::add_step(set.steps, part);
  }
  return set;
}

bool Mesh::contains(Rank rank) const {
  const State& mesh = state();
  if (mesh.is_dense) return rank.value() >= mesh.first && rank.value() < mesh.first + mesh.size;
  return mesh.locate(rank, [](int, std::int64_t) {});
}

Coordinates Mesh::coordinates(Rank rank) const {
  Coordinates all;
  for (std::size_t i = 0; i < axes().size(); ++i) all.push_back(0);
  const bool is_here = state().locate(
      rank, [&](int axis, std::int64_t coordinate) { all[static_cast<std::size_t>(axis)] += coordinate; });
  TESSERA_CHECK(is_here, "rank ", rank, " is not in mesh ", text(), "; check contains() first");
  return all;
}

Rank Mesh::rank_at(std::span<const std::int64_t> coordinates) const {
  const auto all = axes();
  TESSERA_CHECK(coordinates.size() == all.size(), "mesh ", text(), " requires one coordinate per axis (", all.size(),
                "), got ", coordinates.size());
  std::int64_t rank = state().first;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::int64_t coordinate = coordinates[i];
    TESSERA_CHECK(coordinate >= 0 && coordinate < all[i].size, "mesh ", text(), ": coordinate of axis '", all[i].name,
                  "' must be in [0, ", all[i].size, "), got ", coordinate);
    for (std::size_t k = all[i].parts.size(); k-- > 0;) {
      rank += coordinate % all[i].parts[k].size * all[i].parts[k].stride;
      coordinate /= all[i].parts[k].size;
    }
  }
  return Rank(static_cast<std::int32_t>(rank));
}

RankSet Mesh::group(std::span<const int> axes_of_group, Rank rank) const {
  Coordinates at = coordinates(rank);
  SmallVector<bool, 16> is_named;
  for (int i = 0; i < ndim(); ++i) is_named.push_back(false);
  RankSet set;
  for (const int index : axes_of_group) {
    const Axis& moving = axis(index);
    TESSERA_CHECK(!is_named[static_cast<std::size_t>(index)], "mesh ", text(),
                  ": axes of a group must be distinct, got '", moving.name, "' twice");
    is_named[static_cast<std::size_t>(index)] = true;
    at[static_cast<std::size_t>(index)] = 0;
    for (const RankStep& part : moving.parts) detail::add_step(set.steps, part);
  }
  set.first = rank_at(at).value();
  return set;
}

Mesh Mesh::slice(std::span<const std::string> names, Rank rank) const {
  std::vector<int> indices;
  std::vector<Axis> kept;
  for (const std::string& name : names) {
    indices.push_back(index_of(name));
    kept.push_back(axis(indices.back()));
  }
  return intern(std::move(kept), group(indices, rank).first);
}

Mesh Mesh::at(std::string_view name, std::int64_t coordinate) const {
  const int index = index_of(name);
  Coordinates corner = coordinates(Rank(static_cast<std::int32_t>(state().first)));
  corner[static_cast<std::size_t>(index)] = coordinate;
  std::vector<Axis> kept(axes().begin(), axes().end());
  kept.erase(kept.begin() + index);
  return intern(std::move(kept), rank_at(corner).value());
}

Mesh Mesh::flatten(std::span<const std::string> names, std::string name) const {
  TESSERA_CHECK(!names.empty(), "mesh ", text(), ": flatten to '", name, "' requires at least one axis");
  Axis flat{std::move(name), 1, {}, Link::kMemory, {}};
  std::vector<bool> is_gone(axes().size(), false);
  for (const std::string& each : names) {
    const auto index = static_cast<std::size_t>(index_of(each));
    TESSERA_CHECK(!is_gone[index], "mesh ", text(), ": axes of flatten must be distinct, got '", each, "' twice");
    is_gone[index] = true;
    const Axis& part = axes()[index];
    flat.size *= part.size;
    flat.parts.append(part.parts);
    flat.link = std::max(flat.link, part.link);
  }
  const auto place = static_cast<std::size_t>(index_of(names.front()));
  std::vector<Axis> all;
  for (std::size_t i = 0; i < axes().size(); ++i) {
    if (i == place) all.push_back(flat);
    if (!is_gone[i]) all.push_back(axes()[i]);
  }
  return intern(std::move(all), state().first);
}

Mesh Mesh::unflatten(std::string_view name, std::span<const AxisSpec> into) const {
  const int index = index_of(name);
  const Axis& whole = axis(index);
  std::int64_t product = 1;
  for (const AxisSpec& spec : into) {
    TESSERA_CHECK(spec.size >= 1 && spec.size <= kMaxRanks, "mesh ", text(), ": axis '", spec.name,
                  "' must have a size in [1, 2^31] to be split from axis '", name, "', got ", spec.size);
    product = checked_mul(product, spec.size, "sizes of unflatten");
  }
  TESSERA_CHECK(product == whole.size, "mesh ", text(), ": the new axes must have as many ranks as axis '", name, "' (",
                whole.size, "), got ", product);
  std::vector<RankStep> parts(whole.parts.begin(), whole.parts.end());
  std::vector<Axis> made(into.size());
  for (std::size_t i = into.size(); i-- > 0;) {
    made[i] = {into[i].name, into[i].size, {}, into[i].link, into[i].options};
    TESSERA_CHECK(take_minor(parts, into[i].size, made[i].parts), "mesh ", text(), ": axis '", into[i].name, "' of ",
                  into[i].size, " would split an axis that was flattened into '", name, "'");
  }
  std::vector<Axis> all(axes().begin(), axes().end());
  all.erase(all.begin() + index);
  all.insert(all.begin() + index, made.begin(), made.end());
  return intern(std::move(all), state().first);
}

}  // namespace tessera::layout
