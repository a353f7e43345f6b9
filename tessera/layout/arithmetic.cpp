#include "tessera/layout/arithmetic.h"

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/base/error.h"
#include "tessera/layout/detail/chunking.h"
#include "tessera/layout/detail/layout_state.h"

namespace tessera::layout {
namespace {

using detail::chunk_range;
using detail::LayoutState;
using detail::PlacedDim;
using detail::PlacedSharding;
using detail::Range;

const LayoutState& state_of(const Layout& layout) { return detail::LayoutAccess::state(layout); }

// Returns the range of each block of `size` that a split keeps.
Range range_of(const PlacedDim& dim, std::size_t place, std::int64_t block, std::int64_t coordinate) {
  if (place == 0 && !dim.starts.empty()) {
    const auto at = static_cast<std::size_t>(coordinate);
    return {dim.starts[at], dim.starts[at + 1]};
  }
  return chunk_range(block, dim.shardings[place].size, coordinate);
}

// The common case, without allocation: even splits, with blocks only in the last one.
bool is_simply_even(const PlacedDim& dim, std::int64_t size) {
  if (!dim.starts.empty()) return false;
  for (std::size_t i = 0; i < dim.shardings.size(); ++i) {
    const PlacedSharding& sharding = dim.shardings[i];
    if (i + 1 == dim.shardings.size()) return size % sharding.blocks == 0;
    if (sharding.blocks > 1 || size % sharding.size != 0) return false;
    size /= sharding.size;
  }
  return true;
}

std::string misfit_of_dim(const LayoutState& state, std::size_t index, std::int64_t size) {
  const PlacedDim& dim = state.dims[index];
  using tessera::detail::concat;
  if (!dim.starts.empty() && dim.starts.back() != size) {
    return concat("the sizes of axis '", detail::name_of(state.mesh, state.parts.dims[index].shardings[0].by),
                  "' sum to ", dim.starts.back());
  }
  if (!dim.has_blocks || is_simply_even(dim, size)) return {};
  detail::Holdings holdings(size);
  for (std::size_t i = 0; i < dim.shardings.size(); ++i) {
    std::string why;
    if (i == 0 && !dim.starts.empty()) {
      holdings.sharding(*state.parts.dims[index].sizes);
    } else {
      why = holdings.sharding(dim.shardings[i].size, dim.shardings[i].blocks);
    }
    if (why.empty()) continue;
    return concat("it cannot be sharded over axis '",
                  detail::name_of(state.mesh, state.parts.dims[index].shardings[i].by), "': ", why);
  }
  return {};
}

[[gnu::cold, gnu::noinline]] void refuse_shape(const LayoutState& state, const Shape& shape) {
  const std::string text = state.mesh.text() + ' ' + state.placements_text;
  TESSERA_CHECK(shape.size() >= state.dims.size(), "layout ", text, " shards dimension ", state.dims.size() - 1,
                ", but shape ", shape, " has ", shape.size(), " dimensions");
  for (std::size_t i = 0; i < shape.size(); ++i) {
    TESSERA_CHECK(shape[i] <= detail::kMaxSize, "layout ", text, ": dimension ", i, " must be at most 2^62, got shape ",
                  shape);
  }
}

// The part of the check that every query makes; blocks and explicit sizes are checked only if there are any.
inline void check_shape(const LayoutState& state, const Shape& shape) {
  bool fits = shape.size() >= state.dims.size();
  for (const std::int64_t size : shape) fits = fits && size <= detail::kMaxSize;
  if (!fits) [[unlikely]]
    refuse_shape(state, shape);
  if (state.is_plain) return;
  for (std::size_t i = 0; i < state.dims.size(); ++i) {
    const std::string why = misfit_of_dim(state, i, shape[i]);
    TESSERA_CHECK(why.empty(), "layout ", state.mesh.text(), " ", state.placements_text, ": dimension ", i,
                  " of shape ", shape, " has ", shape[i], " elements, but ", why);
  }
}

// Returns the distance from the first rank of the mesh; the rank must be in the mesh.
std::uint32_t distance_of(const LayoutState& state, Rank rank) {
  return static_cast<std::uint32_t>(rank.value() - state.first_rank);
}

IndexMap empty_map(std::int64_t size) { return {size, 0, {}}; }

// Returns the one run of a dimension without blocks.
inline Range run_of(const PlacedDim& dim, std::int64_t size, std::uint32_t distance) {
  Range run{0, size};
  for (std::size_t i = 0; i < dim.shardings.size(); ++i) {
    const Range piece = range_of(dim, i, run.hi - run.lo, dim.shardings[i].coordinate(distance));
    run = {run.lo + piece.lo, run.lo + piece.hi};
  }
  return run.lo < run.hi ? run : Range{size, size};
}

IndexMap map_of(const PlacedDim& dim, std::int64_t size, std::uint32_t distance) {
  if (!dim.has_blocks) {
    const Range run = run_of(dim, size, distance);
    return {run.lo, run.hi - run.lo, {}};
  }
  IndexMap map{0, size, {}};
  for (std::size_t i = 0; i < dim.shardings.size() && map.block > 0; ++i) {
    const PlacedSharding& sharding = dim.shardings[i];
    const Range range = range_of(dim, i, map.size() / sharding.blocks, sharding.coordinate(distance));
    if (range.lo >= range.hi) return empty_map(size);
    TESSERA_CHECK(keep_range(map, sharding.blocks, range),
                  "layout: a sharding splits runs, which check_fits should have rejected");
  }
  return map.block > 0 ? map : empty_map(size);
}

std::int64_t local_size(const PlacedDim& dim, std::int64_t size, std::uint32_t distance) {
  for (std::size_t i = 0; i < dim.shardings.size(); ++i) {
    const PlacedSharding& sharding = dim.shardings[i];
    const Range range = range_of(dim, i, size / sharding.blocks, sharding.coordinate(distance));
    size = (range.hi - range.lo) * sharding.blocks;
  }
  return size;
}

// Returns the distance that the splits of the dimension add for the ranks that hold `index`.
std::int64_t distance_to(const PlacedDim& dim, std::int64_t size, std::int64_t index) {
  std::int64_t distance = 0;
  for (std::size_t i = 0; i < dim.shardings.size(); ++i) {
    const PlacedSharding& sharding = dim.shardings[i];
    const std::int64_t block = size / sharding.blocks;
    const std::int64_t in_block = index % block;
    std::int64_t coordinate = 0;
    if (i == 0 && !dim.starts.empty()) {
      const auto behind = std::upper_bound(dim.starts.begin(), dim.starts.end(), index);
      coordinate = behind - dim.starts.begin() - 1;
    } else {
      coordinate = in_block / detail::chunk_of(block, sharding.size);
    }
    const Range range = range_of(dim, i, block, coordinate);
    distance += sharding.distance(coordinate);
    index = index / block * (range.hi - range.lo) + in_block - range.lo;
    size = (range.hi - range.lo) * sharding.blocks;
  }
  return distance;
}

}  // namespace

std::int64_t IndexMap::size() const {
  std::int64_t count = block;
  for (const StrideLevel& level : levels) count *= level.count;
  return count;
}

std::int64_t IndexMap::global(std::int64_t local) const {
  TESSERA_CHECK(local >= 0 && local < size(), "index map: local index must be in [0, ", size(), "), got ", local);
  std::int64_t index = offset + local % block;
  local /= block;
  for (std::size_t i = levels.size(); i-- > 0;) {
    index += local % levels[i].count * levels[i].stride;
    local /= levels[i].count;
  }
  return index;
}

std::optional<std::int64_t> IndexMap::local(std::int64_t global) const {
  if (global < offset) return std::nullopt;
  std::int64_t rest = global - offset;
  std::int64_t index = 0;
  for (const StrideLevel& level : levels) {
    const std::int64_t place = rest / level.stride;
    if (place >= level.count) return std::nullopt;
    rest -= place * level.stride;
    index = index * level.count + place;
  }
  if (rest >= block) return std::nullopt;
  return index * block + rest;
}

std::int64_t Box::numel() const {
  std::int64_t count = 1;
  for (const std::int64_t each : size) {
    if (each == 0) return 0;
  }
  for (const std::int64_t each : size) count = checked_mul(count, each, "elements of a box");
  return count;
}

std::string Box::text() const {
  std::string text = "[";
  for (std::size_t i = 0; i < size.size(); ++i) {
    text += tessera::detail::concat(i > 0 ? ", " : "", offset[i], ':', offset[i] + size[i]);
  }
  return text + "]";
}

Box intersect(const Box& a, const Box& b) {
  TESSERA_CHECK(a.size.size() == b.size.size(), "boxes must have the same number of dimensions, got ", a.text(),
                " and ", b.text());
  Box both;
  for (std::size_t i = 0; i < a.size.size(); ++i) {
    const std::int64_t lo = std::max(a.offset[i], b.offset[i]);
    const std::int64_t hi = std::min(a.offset[i] + a.size[i], b.offset[i] + b.size[i]);
    both.offset.push_back(lo);
    both.size.push_back(std::max<std::int64_t>(hi - lo, 0));
  }
  return both;
}

void check_fits(const Layout& layout, const Shape& shape) { check_shape(state_of(layout), shape); }

Shape local_shape(const Layout& layout, const Shape& shape, Rank rank) {
  const LayoutState& state = state_of(layout);
  check_shape(state, shape);
  const bool is_here = state.mesh.contains(rank);
  const std::uint32_t distance = is_here ? distance_of(state, rank) : 0;
  SmallVector<std::int64_t, 8> sizes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t size = i < state.dims.size() ? local_size(state.dims[i], shape[i], distance) : shape[i];
    sizes.push_back(is_here ? size : 0);
  }
  return Shape(std::span<const std::int64_t>(sizes));
}

IndexMap index_map(const Layout& layout, const Shape& shape, int dim, Rank rank) {
  const LayoutState& state = state_of(layout);
  check_shape(state, shape);
  const std::int64_t size = shape.dim(dim);
  const auto index = static_cast<std::size_t>(dim < 0 ? dim + shape.ndim() : dim);
  if (!state.mesh.contains(rank)) return empty_map(size);
  if (index >= state.dims.size()) return {0, size, {}};
  return map_of(state.dims[index], size, distance_of(state, rank));
}

Box local_box(const Layout& layout, const Shape& shape, Rank rank) {
  const LayoutState& state = state_of(layout);
  check_shape(state, shape);
  Box box;
  const bool is_here = state.mesh.contains(rank);
  const std::uint32_t distance = is_here ? distance_of(state, rank) : 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    Range run{0, shape[i]};
    if (!is_here) {
      run = {shape[i], shape[i]};
    } else if (i < state.dims.size() && !state.dims[i].has_blocks) {
      run = run_of(state.dims[i], shape[i], distance);
    } else if (i < state.dims.size()) {
      const IndexMap map = map_of(state.dims[i], shape[i], distance);
      TESSERA_CHECK(map.is_contiguous(), "layout ", layout.text(), ": the shard of rank ", rank, " of shape ", shape,
                    " is not a box: dimension ", i, " has runs of ", map.block, "; use index_map()");
      run = {map.offset, map.offset + map.block};
    }
    box.offset.push_back(run.lo);
    box.size.push_back(run.hi - run.lo);
  }
  return box;
}

RankSet owners(const Layout& layout, const Shape& shape, std::span<const std::int64_t> index) {
  const LayoutState& state = state_of(layout);
  check_shape(state, shape);
  TESSERA_CHECK(index.size() == shape.size(), "owners: index must have one number per dimension of shape ", shape,
                ", got ", index.size(), " numbers");
  for (std::size_t i = 0; i < index.size(); ++i) {
    TESSERA_CHECK(index[i] >= 0 && index[i] < shape[i], "owners: index must be in [0, ", shape[i], ") in dimension ", i,
                  " of shape ", shape, ", got ", index[i]);
  }
  RankSet ranks{state.first_rank, state.replicas};
  for (std::size_t i = 0; i < state.dims.size(); ++i) ranks.first += distance_to(state.dims[i], shape[i], index[i]);
  return ranks;
}

std::int64_t largest_local_numel(const Layout& layout, const Shape& shape) {
  const LayoutState& state = state_of(layout);
  check_shape(state, shape);
  SmallVector<std::int64_t, 8> sizes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t size = shape[i];
    for (std::size_t k = 0; i < state.dims.size() && k < state.dims[i].shardings.size(); ++k) {
      const PlacedSharding& sharding = state.dims[i].shardings[k];
      const bool is_given = k == 0 && !state.dims[i].starts.empty();
      // The first chunk is the largest, and the first chunk of a larger range is not smaller.
      size =
          is_given ? state.dims[i].largest : detail::chunk_of(size / sharding.blocks, sharding.size) * sharding.blocks;
    }
    sizes.push_back(size);
  }
  return Shape(std::span<const std::int64_t>(sizes)).numel();
}

}  // namespace tessera::layout
