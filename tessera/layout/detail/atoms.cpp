#include "tessera/layout/detail/atoms.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/layout/detail/chunking.h"
#include "tessera/layout/detail/layout_state.h"

namespace tessera::layout::detail {
namespace {

using tessera::detail::concat;

void add_bounds(std::vector<std::int64_t>& bounds, const SubAxis& part) {
  bounds.push_back(part.before);
  bounds.push_back(part.before * part.size);
}

// Returns the sorted, unique bounds of the sub-axes of an axis that these layouts use, from 1 to the size of the axis.
std::vector<std::int64_t> bounds_of(std::span<const Layout> layouts, std::int32_t axis, std::int64_t size) {
  std::vector<std::int64_t> bounds = {1, size};
  for (const Layout& layout : layouts) {
    for (int dim = 0; dim < layout.ndim(); ++dim) {
      for (const Sharding& sharding : layout.shardings(dim)) {
        if (sharding.by.axis == axis) add_bounds(bounds, sharding.by);
      }
    }
    for (const PartialAxis& partial : layout.partials()) {
      if (partial.by.axis == axis) add_bounds(bounds, partial.by);
    }
  }
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  return bounds;
}

// The atoms of a sub-axis: [first, end).
struct AtomRange {
  std::size_t first = 0;
  std::size_t end = 0;
};

std::optional<AtomRange> atoms_of_part(const Atoms& atoms, const SubAxis& part) {
  AtomRange range;
  const std::int64_t to = part.before * part.size;
  while (range.first < atoms.list.size() &&
         (atoms.list[range.first].axis != part.axis || atoms.list[range.first].before != part.before)) {
    ++range.first;
  }
  for (range.end = range.first; range.end < atoms.list.size() && atoms.list[range.end].axis == part.axis; ++range.end) {
    const SubAxis& atom = atoms.list[range.end];
    if (atom.before * atom.size == to) {
      ++range.end;
      return range;
    }
  }
  return std::nullopt;
}

std::string no_atoms(const Atoms& atoms, const SubAxis& part) {
  return concat("no combination of atoms is sub-axis ", name_of(atoms.mesh, part), " of axis '",
                atoms.mesh.axis(part.axis).name, "'");
}

std::optional<AtomDim> dim_to_atoms(const Atoms& atoms, const Layout& layout, int dim, std::int64_t size,
                                    std::string& why) {
  AtomDim made;
  const std::span<const Sharding> shardings = layout.shardings(dim);
  Holdings holdings(size);
  for (std::size_t i = 0; i < shardings.size(); ++i) {
    const Sharding& sharding = shardings[i];
    const auto range = atoms_of_part(atoms, sharding.by);
    if (!range) {
      why = no_atoms(atoms, sharding.by);
      return std::nullopt;
    }
    const bool is_given = i == 0 && !layout.sizes(dim).empty();
    if (range->end - range->first > 1) {
      if (is_given || !holdings.all_divide_by(sharding.blocks, sharding.by.size)) {
        why = concat("dimension ", dim, " is sharded over axis '", name_of(atoms.mesh, sharding.by), "' into ",
                     is_given ? "shards of explicit sizes" : "uneven shards", ", but its sub-axes are used elsewhere");
        return std::nullopt;
      }
    }
    if (is_given) made.sizes = LayoutAccess::state(layout).parts.dims[static_cast<std::size_t>(dim)].sizes;
    for (std::size_t atom = range->first; atom < range->end; ++atom) {
      made.shardings.push_back({static_cast<std::int32_t>(atom), sharding.blocks});
      std::string problem;
      if (is_given) {
        holdings.sharding(layout.sizes(dim));
      } else {
        problem = holdings.sharding(atoms.list[atom].size, sharding.blocks);
      }
      if (problem.empty()) continue;  // chunks of the full split may keep runs that chunks of its sub-axes break
      why = concat("dimension ", dim, ", sharded over the sub-axes of axis '", name_of(atoms.mesh, sharding.by),
                   "': ", problem);
      return std::nullopt;
    }
  }
  return made;
}

DimShardings dim_from_atoms(const Atoms& atoms, const AtomDim& dim, std::size_t index, std::int64_t size) {
  DimShardings made;
  made.sizes = dim.sizes;
  Holdings holdings(size);
  for (std::size_t i = 0; i < dim.shardings.size();) {
    const AtomSharding& first = dim.shardings[i];
    SubAxis part = atoms.list[static_cast<std::size_t>(first.atom)];
    const bool is_given = i == 0 && dim.sizes;
    std::size_t next = i + 1;
    for (; next < dim.shardings.size() && !is_given; ++next) {
      const SubAxis& more = atoms.list[static_cast<std::size_t>(dim.shardings[next].atom)];
      if (more.axis != part.axis || more.before != part.before * part.size ||
          dim.shardings[next].blocks != first.blocks || !holdings.all_divide_by(first.blocks, part.size * more.size)) {
        break;
      }
      part.size *= more.size;
    }
    made.shardings.push_back({part, first.blocks});
    std::string why;
    if (is_given) {
      holdings.sharding(*dim.sizes);
    } else {
      why = holdings.sharding(part.size, first.blocks);
    }
    TESSERA_CHECK(why.empty(), "atoms: dimension ", index, ", sharded over axis '", name_of(atoms.mesh, part),
                  "': ", why);
    i = next;
  }
  return made;
}

}  // namespace

std::size_t common_shardings(const AtomDim& a, const AtomDim& b) {
  if (!are_same_sizes(a.sizes, b.sizes)) return 0;
  const auto [end, other] = std::ranges::mismatch(a.shardings, b.shardings);
  return static_cast<std::size_t>(end - a.shardings.begin());
}

bool AtomLayout::is_sharded_by(std::int32_t atom) const {
  return std::ranges::any_of(dims, [atom](const AtomDim& dim) {
    return std::ranges::any_of(dim.shardings, [atom](const AtomSharding& sharding) { return sharding.atom == atom; });
  });
}

std::optional<Atoms> atoms_of(std::span<const Layout> layouts, std::string& why) {
  TESSERA_CHECK(!layouts.empty(), "atoms: requires at least one layout");
  Atoms atoms{layouts.front().mesh(), {}};
  for (const Layout& layout : layouts) {
    TESSERA_CHECK(layout.mesh() == atoms.mesh, "atoms: layouts must be on one mesh, got ", atoms.mesh.text(), " and ",
                  layout.mesh().text());
  }
  for (std::int32_t axis = 0; axis < atoms.mesh.ndim(); ++axis) {
    const Axis& whole = atoms.mesh.axis(axis);
    const std::vector<std::int64_t> bounds = bounds_of(layouts, axis, whole.size);
    for (std::size_t i = 1; i < bounds.size(); ++i) {
      if (bounds[i] % bounds[i - 1] != 0) {
        why = concat("axis '", whole.name, "' of ", whole.size, " is used in sub-axes that do not nest: one ends at ",
                     bounds[i - 1], ", another at ", bounds[i]);
        return std::nullopt;
      }
      atoms.list.push_back({axis, bounds[i - 1], bounds[i] / bounds[i - 1]});
    }
  }
  return atoms;
}

std::optional<AtomLayout> to_atoms(const Atoms& atoms, const Layout& layout, const Shape& shape, std::string& why) {
  TESSERA_CHECK(layout.mesh() == atoms.mesh, "atoms: layout must be on mesh ", atoms.mesh.text(), ", got ",
                layout.text());
  check_fits(layout, shape);
  AtomLayout made;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    auto dim = dim_to_atoms(atoms, layout, static_cast<int>(i), shape[i], why);
    if (!dim) return std::nullopt;
    made.dims.push_back(std::move(*dim));
  }
  made.partials.resize(atoms.list.size());
  for (const PartialAxis& partial : layout.partials()) {
    const auto range = atoms_of_part(atoms, partial.by);
    if (!range) {
      why = no_atoms(atoms, partial.by);
      return std::nullopt;
    }
    for (std::size_t atom = range->first; atom < range->end; ++atom) made.partials[atom] = partial.reduction;
  }
  return made;
}

Layout from_atoms(const Atoms& atoms, const AtomLayout& layout, const Shape& shape) {
  TESSERA_CHECK(layout.dims.size() <= shape.size(), "atoms: layout of ", layout.dims.size(),
                " dimensions does not fit shape ", shape);
  LayoutParts parts;
  for (std::size_t i = 0; i < layout.dims.size(); ++i) {
    parts.dims.push_back(dim_from_atoms(atoms, layout.dims[i], i, shape[i]));
  }
  for (std::size_t i = 0; i < layout.partials.size(); ++i) {
    if (layout.partials[i]) parts.partials.push_back({atoms.list[i], *layout.partials[i]});
  }
  return Layout::create(atoms.mesh, std::move(parts));
}

}  // namespace tessera::layout::detail
