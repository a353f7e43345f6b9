#include "tessera/shard/groups.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/nearest.h"
#include "tessera/base/rank.h"
#include "tessera/shard/detail/rank_state.h"
#include "tessera/tensor/device_context.h"

namespace tessera::shard {
namespace {

using layout::Mesh;
using layout::SubAxis;

struct GroupKey {
  layout::MeshId mesh;
  std::vector<SubAxis> axes;
};
struct GroupLook {  // a key for look-ups only
  layout::MeshId mesh;
  std::span<const SubAxis> axes;
};
struct KeyHash {
  using is_transparent = void;
  template <class Key>
  std::size_t operator()(const Key& key) const {
    std::uint64_t sum = key.mesh.value();
    for (const SubAxis& part : key.axes) {
      sum = (sum ^ static_cast<std::uint64_t>(part.axis)) * 0x9e3779b97f4a7c15U;
      sum = (sum ^ static_cast<std::uint64_t>(part.before)) * 0x9e3779b97f4a7c15U;
      sum = (sum ^ static_cast<std::uint64_t>(part.size)) * 0x9e3779b97f4a7c15U;
    }
    return sum ^ sum >> 32;
  }
};
struct KeyEqual {
  using is_transparent = void;
  template <class A, class B>
  bool operator()(const A& a, const B& b) const {
    return a.mesh == b.mesh && std::ranges::equal(a.axes, b.axes);
  }
};

// The groups of one rank. A list of ranks with its options has one group, for any number of meshes.
struct RankGroups {
  std::mutex mutex;
  std::unordered_map<GroupKey, const comm::ProcessGroup*, KeyHash, KeyEqual> by_axes;
  std::unordered_map<std::string, std::unique_ptr<comm::ProcessGroup>> by_ranks;
};

constexpr std::string_view kOptionNames[] = {"backend", "deadline_ms", "fixed_order"};

std::chrono::nanoseconds parse_deadline(const layout::Axis& axis, const std::string& text) {
  std::int64_t ms = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ms);
  constexpr std::int64_t kMax = std::int64_t{1} << 40;  // 34 years; more would not fit in nanoseconds
  TESSERA_CHECK(error == std::errc() && end == text.data() + text.size() && ms > 0 && ms <= kMax, "axis '", axis.name,
                "': deadline_ms must be an integer of at least 1, got '", text, "'");
  return std::chrono::milliseconds(ms);
}

bool parse_flag(const layout::Axis& axis, const std::string& text) {
  TESSERA_CHECK(text == "true" || text == "false", "axis '", axis.name, "': fixed_order must be true or false, got '",
                text, "'");
  return text == "true";
}

void check_axes(const Mesh& mesh, std::span<const SubAxis> axes) {
  for (const SubAxis& part : axes) {
    TESSERA_CHECK(part.axis >= 0 && part.axis < mesh.ndim(), "mesh ", mesh.text(), ": axis must be in [0, ",
                  mesh.ndim(), "), got ", part.axis);
    const std::int64_t extent = mesh.axis(part.axis).size;
    const bool is_bounded = part.before > 0 && part.size > 0 && part.before <= extent && part.size <= extent;
    TESSERA_CHECK(is_bounded && extent % (part.before * part.size) == 0, "mesh ", mesh.text(), ": sub-axis ",
                  part.before, " x ", part.size, " must divide the axis of ", mesh.axis(part.axis).size);
    for (const SubAxis& other : axes) {
      const bool is_apart = &other == &part || other.axis != part.axis || other.size == 1 || part.size == 1 ||
                            other.before * other.size <= part.before || part.before * part.size <= other.before;
      TESSERA_CHECK(is_apart, "mesh ", mesh.text(), ": axis '", mesh.axis(part.axis).name,
                    "' appears twice in one group");
    }
  }
}

// Also distinguishes groups that differ only in their options.
std::string name_of(const std::vector<Rank>& ranks, const comm::GroupOptions& options) {
  std::string name;
  for (const Rank rank : ranks) name += to_string(rank) + ",";
  name += options.backend + options.device_kind;
  if (options.deadline) name += "," + std::to_string(options.deadline->count());
  if (options.fixed_order) name += *options.fixed_order ? ",fixed" : ",free";
  return name;
}

const comm::ProcessGroup& make_group(RankGroups& all, const Mesh& mesh, std::span<const SubAxis> axes) {
  const std::vector<Rank> ranks = ranks_along(mesh, axes, current_place().rank);
  comm::GroupOptions options = group_options(mesh, axes);
  // The host uses the preferred backend of all.
  const device::Device device = tensor::default_device();
  if (device != tensor::host_device() && device.properties().has_values) options.device_kind = device.properties().kind;
  const std::string name = name_of(ranks, options);
  {
    const std::lock_guard lock(all.mutex);
    if (const auto found = all.by_ranks.find(name); found != all.by_ranks.end()) return *found->second;
  }
  // Without the lock: group creation may wait for the other members.
  auto made = std::make_unique<comm::ProcessGroup>(comm::group_of(ranks, options));
  const std::lock_guard lock(all.mutex);
  return *all.by_ranks.try_emplace(name, std::move(made)).first->second;
}

}  // namespace

std::vector<Rank> ranks_along(const Mesh& mesh, std::span<const SubAxis> axes, Rank rank) {
  check_axes(mesh, axes);
  layout::Coordinates at = mesh.coordinates(rank);
  const auto step_of = [&](const SubAxis& part) { return mesh.axis(part.axis).size / (part.before * part.size); };
  std::int64_t count = 1;
  for (const SubAxis& part : axes) {
    std::int64_t& coordinate = at[static_cast<std::size_t>(part.axis)];
    coordinate -= coordinate / step_of(part) % part.size * step_of(part);
    count *= part.size;
  }
  std::vector<Rank> ranks;
  ranks.reserve(static_cast<std::size_t>(count));
  for (std::int64_t place = 0; place < count; ++place) {
    layout::Coordinates here = at;
    std::int64_t left = place;
    for (std::size_t i = axes.size(); i-- > 0; left /= axes[i].size) {
      here[static_cast<std::size_t>(axes[i].axis)] += left % axes[i].size * step_of(axes[i]);
    }
    ranks.push_back(mesh.rank_at(here));
  }
  return ranks;
}

comm::GroupOptions group_options(const Mesh& mesh, std::span<const SubAxis> axes) {
  comm::GroupOptions options;
  std::optional<std::pair<std::string, const layout::Axis*>> asked[std::size(kOptionNames)];
  for (const SubAxis& part : axes) {
    if (part.size == 1) continue;
    const layout::Axis& axis = mesh.axis(part.axis);
    for (const auto& [name, value] : axis.options) {
      const auto* found = std::ranges::find(kOptionNames, std::string_view(name));
      TESSERA_CHECK(found != std::end(kOptionNames), "axis '", axis.name, "' of mesh ", mesh.text(),
                    ": unknown option '", name, "'", did_you_mean(name, kOptionNames),
                    "; options: backend, deadline_ms, fixed_order");
      auto& known = asked[found - std::begin(kOptionNames)];
      TESSERA_CHECK(!known || known->first == value, "axes '", known->second->name, "' and '", axis.name, "' of mesh ",
                    mesh.text(), " are merged in one group and must have the same ", name, ", got ", known->first,
                    " and ", value, "; set both to the same, or only one");
      known.emplace(value, &axis);
    }
  }
  if (asked[0]) options.backend = asked[0]->first;
  if (asked[1]) options.deadline = parse_deadline(*asked[1]->second, asked[1]->first);
  if (asked[2]) options.fixed_order = parse_flag(*asked[2]->second, asked[2]->first);
  return options;
}

const comm::ProcessGroup& group_along(const Mesh& mesh, std::span<const SubAxis> axes) {
  RankGroups& all = detail::rank_state<RankGroups>();
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.by_axes.find(GroupLook{mesh.id(), axes});
    if (found != all.by_axes.end()) return *found->second;
  }
  const comm::ProcessGroup& group = make_group(all, mesh, axes);
  const std::lock_guard lock(all.mutex);
  all.by_axes.try_emplace(GroupKey{mesh.id(), {axes.begin(), axes.end()}}, &group);
  return group;
}

const comm::ProcessGroup& group_of_mesh(const Mesh& mesh) {
  SmallVector<SubAxis, 8> axes;
  for (int i = 0; i < mesh.ndim(); ++i) axes.push_back({i, 1, mesh.axis(i).size});
  return group_along(mesh, axes);
}

}  // namespace tessera::shard
