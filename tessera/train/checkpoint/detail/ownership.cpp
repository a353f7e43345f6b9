#include "tessera/train/checkpoint/detail/ownership.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>

#include "tessera/base/checked.h"
#include "tessera/base/error.h"

namespace tessera::train::detail {
namespace {

using Index = SmallVector<std::int64_t, 8>;

std::uint64_t nbytes_of(const Shape& shape, DType dtype) {
  return static_cast<std::uint64_t>(shape.numel()) * itemsize(dtype);
}

// Returns the first element of the shard of a rank; nothing if the shard is empty.
std::optional<Index> first_element(const SavedTensor& tensor, Rank rank) {
  Index index;
  for (int d = 0; d < tensor.shape.ndim(); ++d) {
    const layout::IndexMap map = layout::index_map(tensor.layout, tensor.shape, d, rank);
    if (map.size() == 0) return {};
    index.push_back(map.offset);
  }
  return index;
}

// Position of a kind of tensors on one rank.
struct Standing {
  std::int64_t numel = 0;
  std::int64_t place = -1;  // index among the holders of its shard; -1: it holds nothing
};

Standing standing_of(const SavedTensor& tensor, Rank rank, int world_size) {
  if (!tensor.layout) return {tensor.shape.numel(), rank.value()};
  if (!tensor.layout.mesh().contains(rank)) return {};
  const auto index = first_element(tensor, rank);
  if (!index) return {};
  return {layout::local_shape(tensor.layout, tensor.shape, rank).numel(),
          holders(tensor, *index, world_size).place_of(rank)};
}

std::int64_t count_of_holders(const SavedTensor& tensor, int world_size) {
  if (!tensor.layout) return world_size;
  // Each element has the same number of holders: the ranks that differ only along axes without a cut.
  std::int64_t sharding = 1;
  for (int d = 0; d < tensor.layout.ndim(); ++d) {
    for (const layout::Sharding& each : tensor.layout.shardings(d)) sharding *= each.by.size;
  }
  return tensor.layout.mesh().size() / sharding;
}

// Selects holders for tensors of one layout: the largest first, to the one with the fewest bytes.
void choose_places(const std::vector<SavedTensor>& tensors, std::vector<std::size_t> group, std::int64_t holders,
                   std::vector<std::int64_t>& places) {
  const auto size_of = [&](std::size_t t) { return nbytes_of(tensors[t].shape, tensors[t].dtype); };
  std::ranges::stable_sort(group, std::greater<>(), size_of);
  using Load = std::pair<std::uint64_t, std::int64_t>;  // bytes, holder
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  std::int64_t opened = 0;  // holders with data: the others have nothing, and the first of them the least
  for (const std::size_t t : group) {
    if (opened < holders) {
      places[t] = opened;
      loads.emplace(size_of(t), opened++);
      continue;
    }
    const auto [load, place] = loads.top();
    loads.pop();
    places[t] = place;
    loads.emplace(load + size_of(t), place);
  }
}

}  // namespace

std::string OwnedShard::text() const {
  std::string out = "[";
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (d > 0) out += ", ";
    for (std::size_t i = 0; i < dims[d].size(); ++i) {
      const IndexRun& run = dims[d][i];
      out += tessera::detail::concat(i > 0 ? "+" : "", run.global, ':', run.global + run.size);
    }
  }
  return out + "]";
}

std::vector<IndexRun> runs_of(const layout::IndexMap& map) {
  std::vector<IndexRun> runs;
  const std::int64_t size = map.size();
  for (std::int64_t local = 0; local < size; local += map.block) {
    const std::int64_t global = map.global(local);
    if (!runs.empty() && runs.back().global + runs.back().size == global) {
      runs.back().size += map.block;
    } else {
      runs.push_back({global, local, map.block});
    }
  }
  return runs;
}

OwnedShard part_of(const layout::Layout& layout, const Shape& shape, Rank rank) {
  OwnedShard part;
  if (!layout) {
    part.shape = shape;
    for (const std::int64_t size : shape)
      part.dims.push_back(size > 0 ? std::vector<IndexRun>{{0, 0, size}} : std::vector<IndexRun>());
    return part;
  }
  part.shape = layout::local_shape(layout, shape, rank);
  for (int d = 0; d < shape.ndim(); ++d) part.dims.push_back(runs_of(layout::index_map(layout, shape, d, rank)));
  return part;
}

layout::RankSet holders(const SavedTensor& tensor, std::span<const std::int64_t> index, int world_size) {
  if (tensor.layout) return layout::owners(tensor.layout, tensor.shape, index);
  layout::RankSet all;
  if (world_size > 1) all.steps.push_back({world_size, 1});
  return all;
}

Ownership::Ownership(const std::vector<SavedTensor>& tensors, int world_size)
    : tensors_(&tensors), world_size_(world_size), kinds_(tensors.size()), places_(tensors.size()) {
  std::map<std::uint64_t, std::vector<std::size_t>> by_layout;
  std::map<std::pair<std::uint64_t, std::vector<std::int64_t>>, std::size_t> kinds;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const std::uint64_t id = tensors[t].layout ? tensors[t].layout.id().value() : 0;
    by_layout[id].push_back(t);
    const auto [found, is_new] =
        kinds.try_emplace({id, {tensors[t].shape.begin(), tensors[t].shape.end()}}, kinds.size());
    if (is_new) first_of_kind_.push_back(t);
    kinds_[t] = found->second;
    file_order_.push_back(t);
  }
  std::ranges::stable_sort(file_order_, std::greater<>(), [&](std::size_t t) { return itemsize(tensors[t].dtype); });
  for (auto& [id, group] : by_layout) {
    const std::int64_t count = count_of_holders(tensors[group.front()], world_size);
    choose_places(tensors, std::move(group), count, places_);
  }
}

std::vector<FileShard> Ownership::pieces_of(Rank rank) const {
  std::vector<Standing> standings;
  standings.reserve(first_of_kind_.size());
  for (const std::size_t t : first_of_kind_) standings.push_back(standing_of((*tensors_)[t], rank, world_size_));
  std::vector<FileShard> pieces;
  std::uint64_t offset = 0;
  for (const std::size_t t : file_order_) {
    const Standing& standing = standings[kinds_[t]];
    if (standing.place != places_[t] || standing.numel == 0) continue;
    const std::uint64_t nbytes = static_cast<std::uint64_t>(standing.numel) * itemsize((*tensors_)[t].dtype);
    pieces.push_back({t, offset, nbytes});
    offset += nbytes;
  }
  return pieces;
}

void check_tensors(const std::vector<SavedTensor>& tensors, int world_size) {
  std::set<std::string_view> names;
  std::uint64_t nbytes = 0;
  for (const SavedTensor& tensor : tensors) {
    const std::string what = tessera::detail::concat("checkpoint: tensor '", tensor.name, "'");
    TESSERA_CHECK(!tensor.name.empty() && tensor.name != "__metadata__", what,
                  ": name is empty or reserved; use another name");
    TESSERA_CHECK(names.insert(tensor.name).second, what, " appears twice; use unique names");
    TESSERA_CHECK(tensor.dtype != DType::kC128, what,
                  " must not be c128, which safetensors does not support; save its real and imaginary parts");
    for (const std::int64_t size : tensor.shape) {
      TESSERA_CHECK(size >= 0, what, ": sizes must not be negative, got shape ", tensor.shape);
    }
    nbytes = checked_add(nbytes,
                         checked_mul(static_cast<std::uint64_t>(tensor.shape.numel()),
                                     std::uint64_t{itemsize(tensor.dtype)}, "bytes of a checkpoint"),
                         "bytes of a checkpoint");
    if (!tensor.layout) continue;
    TESSERA_CHECK(tensor.layout.partials().empty(), what, ": layout must not be partial, got ", tensor.layout.text(),
                  "; reduce or redistribute it before saving");
    const layout::RankSet ranks = tensor.layout.mesh().ranks();
    std::int64_t last = ranks.first;
    for (const layout::RankStep& step : ranks.steps) last += (step.size - 1) * step.stride;
    TESSERA_CHECK(last < world_size, what, ": ranks of the mesh must be in [0, ", world_size, "), got mesh ",
                  tensor.layout.mesh().text(), " up to rank ", last);
    layout::check_fits(tensor.layout, tensor.shape);
  }
}

}  // namespace tessera::train::detail
