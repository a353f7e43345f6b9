#include "tessera/layout/testing/layout_model.h"

#include <algorithm>
#include <numeric>

namespace tessera::layout::testing {
namespace {

// Returns the ends of runs of consecutive indices, as positions in the list.
std::vector<std::size_t> run_ends(const Indices& list) {
  std::vector<std::size_t> ends;
  for (std::size_t i = 1; i <= list.size(); ++i) {
    if (i == list.size() || list[i] != list[i - 1] + 1) ends.push_back(i);
  }
  return ends;
}

// Returns true if the list consists of runs of one length that repeat evenly on each level.
bool is_even(Indices list) {
  if (list.empty()) return true;
  const std::size_t run = run_ends(list).front();
  Indices starts;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i % run == 0) {
      starts.push_back(list[i]);
    } else if (list[i] != list[i - 1] + 1) {
      return false;
    }
  }
  if (list.size() % run != 0) return false;
  while (starts.size() > 1) {
    const std::int64_t stride = starts[1] - starts[0];
    std::size_t count = 1;
    while (count < starts.size() && starts[count] - starts[count - 1] == stride) ++count;
    if (starts.size() % count != 0) return false;
    Indices outer;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      if (i % count == 0) {
        outer.push_back(starts[i]);
      } else if (starts[i] - starts[i - 1] != stride) {
        return false;
      }
    }
    starts = std::move(outer);
  }
  return true;
}

// Returns true if a range of positions takes fragments of more than one run.
bool breaks_runs(const Indices& list, std::size_t from, std::size_t to) {
  const std::vector<std::size_t> ends = run_ends(list);
  const auto is_bound = [&](std::size_t at) { return at == 0 || std::binary_search(ends.begin(), ends.end(), at); };
  const auto run_of = [&](std::size_t at) { return std::upper_bound(ends.begin(), ends.end(), at) - ends.begin(); };
  return from < to && !(is_bound(from) && is_bound(to)) && run_of(from) != run_of(to - 1);
}

Indices sharding(const Indices& list, const Sharding& by, const std::vector<std::int64_t>* sizes,
                 std::int64_t coordinate, OwnershipTable& table) {
  const auto length = static_cast<std::int64_t>(list.size());
  if (length % by.blocks != 0) {
    table.divides = false;
    return {};
  }
  const std::int64_t block = length / by.blocks;
  std::int64_t from = 0;
  std::int64_t to = 0;
  if (sizes != nullptr) {
    for (std::int64_t i = 0; i < coordinate; ++i) from += (*sizes)[static_cast<std::size_t>(i)];
    to = from + (*sizes)[static_cast<std::size_t>(coordinate)];
  } else {
    std::int64_t chunk = 0;
    while (chunk * by.by.size < block) ++chunk;
    from = std::min(chunk * coordinate, block);
    to = std::min(chunk * (coordinate + 1), block);
  }
  Indices kept;
  for (std::int64_t i = 0; i < length; ++i) {
    if (i % block >= from && i % block < to) kept.push_back(list[static_cast<std::size_t>(i)]);
  }
  for (std::int64_t b = 0; b < by.blocks && table.keeps_runs; ++b) {
    table.keeps_runs =
        !breaks_runs(list, static_cast<std::size_t>(b * block), static_cast<std::size_t>((b + 1) * block)) &&
        !breaks_runs(list, static_cast<std::size_t>(b * block + from), static_cast<std::size_t>(b * block + to));
  }
  table.keeps_runs = table.keeps_runs && is_even(kept);
  return kept;
}

// Returns a factorization of an axis, major to minor.
std::vector<SubAxis> random_factors(Random& random, std::int32_t axis, std::int64_t size) {
  std::vector<SubAxis> factors;
  std::int64_t before = 1;
  while (before < size) {
    const std::int64_t rest = size / before;
    std::int64_t part = random() % 3 != 0 ? rest : pick(random, 2, rest);
    if (rest % part != 0) part = rest;
    factors.push_back({axis, before, part});
    before *= part;
  }
  return factors;
}

// Returns true if the factors of the axis in the mesh nest with this sub-axis.
bool can_be_sharded(const Axis& axis, const SubAxis& part) {
  std::int64_t bound = 1;
  for (const RankStep& step : axis.parts) {
    bound *= step.size;
    for (const std::int64_t own : {part.before, part.before * part.size}) {
      if (own % bound != 0 && bound % own != 0) return false;
    }
  }
  return true;
}

void give_sizes(Random& random, DimShardings& dim) {
  if (dim.shardings.empty() || random() % 6 != 0) return;
  dim.shardings.front().blocks = 1;
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < dim.shardings.front().by.size; ++i) sizes.push_back(pick(random, 0, 6));
  dim.sizes = std::make_shared<const std::vector<std::int64_t>>(std::move(sizes));
}

}  // namespace

OwnershipTable ownership(const MeshModel& mesh, const LayoutParts& parts, const Shape& shape) {
  OwnershipTable table;
  for (const MeshModel::AxisPlace& place : mesh.places) {
    auto& held = table.held.emplace_back();
    for (std::size_t d = 0; d < shape.size(); ++d) {
      Indices list(static_cast<std::size_t>(shape[d]));
      std::iota(list.begin(), list.end(), 0);
      for (std::size_t i = 0; d < parts.dims.size() && i < parts.dims[d].shardings.size(); ++i) {
        const Sharding& by = parts.dims[d].shardings[i];
        const auto axis = static_cast<std::size_t>(by.by.axis);
        const std::int64_t after = mesh.sizes[axis] / by.by.before / by.by.size;
        const std::int64_t coordinate = place.coordinates[axis] / after % by.by.size;
        list = sharding(list, by, i == 0 ? parts.dims[d].sizes.get() : nullptr, coordinate, table);
      }
      held.push_back(std::move(list));
    }
  }
  return table;
}

LayoutParts random_parts(Random& random, const Mesh& mesh, int ndim) {
  LayoutParts parts;
  parts.dims.resize(static_cast<std::size_t>(ndim));
  const Reduction reduction = static_cast<Reduction>(random() % 5);
  const bool has_blocks = random() % 3 == 0;
  for (std::int32_t i = 0; i < mesh.ndim(); ++i) {
    for (const SubAxis& part : random_factors(random, i, mesh.axis(i).size)) {
      if (!can_be_sharded(mesh.axis(i), part)) continue;
      if (random() % 3 != 0 && ndim > 0) {
        const std::int64_t blocks = has_blocks && random() % 2 == 0 ? pick(random, 2, 4) : 1;
        parts.dims[static_cast<std::size_t>(pick(random, 0, ndim - 1))].shardings.push_back({part, blocks});
      } else if (random() % 2 == 0) {
        parts.partials.push_back({part, reduction});
      }
    }
  }
  for (DimShardings& dim : parts.dims) {
    if (random() % 3 == 0) std::shuffle(dim.shardings.begin(), dim.shardings.end(), random);
    give_sizes(random, dim);
  }
  return parts;
}

Shape random_shape(Random& random, const LayoutParts& parts, int ndim, std::int64_t max_numel) {
  std::vector<std::int64_t> sizes;
  std::int64_t left = max_numel;
  for (std::size_t d = 0; d < static_cast<std::size_t>(ndim); ++d) {
    std::int64_t size = std::min(left, pick(random, 0, 30));
    if (d < parts.dims.size() && random() % 16 != 0) {
      std::int64_t unit = 1;
      for (const Sharding& sharding : parts.dims[d].shardings) unit *= sharding.blocks;
      // Blocks inside chunks: a multiple of all of them often fits, but not always.
      if (unit > 1 && random() % 2 == 0) {
        for (const Sharding& sharding : parts.dims[d].shardings) unit *= sharding.by.size;
      }
      if (unit > 1 && unit <= left) size = pick(random, 0, std::min<std::int64_t>(left / unit, 4)) * unit;
      if (parts.dims[d].sizes) {
        size = std::accumulate(parts.dims[d].sizes->begin(), parts.dims[d].sizes->end(), std::int64_t{0});
      }
    }
    sizes.push_back(size);
    left = std::max<std::int64_t>(left / std::max<std::int64_t>(size, 1), 1);
  }
  return Shape(std::span<const std::int64_t>(sizes));
}

}  // namespace tessera::layout::testing
