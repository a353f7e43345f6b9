// Validates the parts of a layout and converts them to the canonical form.
#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/base/error.h"
#include "tessera/layout/detail/layout_state.h"

namespace tessera::layout::detail {
namespace {

using tessera::detail::concat;

void check_part(const Mesh& mesh, const SubAxis& part) {
  TESSERA_CHECK(part.axis >= 0 && part.axis < mesh.ndim(), "layout: mesh ", mesh.text(), " has no axis ", part.axis);
  const Axis& axis = mesh.axis(part.axis);
  TESSERA_CHECK(part.before >= 1 && part.size >= 1 && part.before <= axis.size && part.size <= axis.size &&
                    axis.size % part.before == 0 && axis.size / part.before % part.size == 0,
                "layout: sub-axis of ", part.size, " after ", part.before, " must divide axis '", axis.name, "' of ",
                axis.size);
}

void canonicalize_dim(const Mesh& mesh, int dim, DimShardings& shardings) {
  for (const Sharding& sharding : shardings.shardings) {
    check_part(mesh, sharding.by);
    TESSERA_CHECK(sharding.blocks >= 1 && sharding.blocks <= TextReader::kMaxNumber, "layout: dimension ", dim,
                  ": number of blocks over axis '", name_of(mesh, sharding.by), "' must be in [1, 2^62], got ",
                  sharding.blocks);
  }
  if (shardings.sizes) {
    TESSERA_CHECK(!shardings.shardings.empty(), "layout: dimension ", dim, " is not sharded, but has explicit sizes");
    const Sharding& first = shardings.shardings.front();
    TESSERA_CHECK(first.blocks == 1, "layout: dimension ", dim, ": the sharding over axis '", name_of(mesh, first.by),
                  "' must not have both sizes and blocks");
    TESSERA_CHECK(static_cast<std::int64_t>(shardings.sizes->size()) == first.by.size, "layout: dimension ", dim,
                  ": requires one size per shard of its first axis '", name_of(mesh, first.by), "' (", first.by.size,
                  "), got ", shardings.sizes->size(), " sizes");
    std::int64_t total = 0;
    for (const std::int64_t size : *shardings.sizes) {
      TESSERA_CHECK(size >= 0, "layout: dimension ", dim, ": sizes must be at least 0, got ", size);
      total = checked_add(total, size, "given sizes of a dimension");
    }
    TESSERA_CHECK(total <= TextReader::kMaxNumber, "layout: dimension ", dim, ": sizes must sum to at most 2^62");
    if (first.by.size == 1) shardings.sizes = nullptr;  // removed with its split
  }
  std::erase_if(shardings.shardings, [](const Sharding& sharding) { return sharding.by.size == 1; });
}

// Sorts the partial axes and merges adjacent sub-axes of an axis.
void canonicalize_partials(const Mesh& mesh, std::vector<PartialAxis>& partials) {
  for (const PartialAxis& partial : partials) {
    check_part(mesh, partial.by);
    TESSERA_CHECK(can_mix(partials.front().reduction, partial.reduction), "layout: axis '",
                  name_of(mesh, partials.front().by), "' is partial with ", partials.front().reduction, " and axis '",
                  name_of(mesh, partial.by), "' with ", partial.reduction, "; only sum and avg can be combined");
  }
  std::erase_if(partials, [](const PartialAxis& partial) { return partial.by.size == 1; });
  std::sort(partials.begin(), partials.end());
  std::size_t kept = 0;
  for (std::size_t i = 1; i < partials.size(); ++i) {
    PartialAxis& last = partials[kept];
    const PartialAxis& next = partials[i];
    if (last.by.axis == next.by.axis && last.by.before * last.by.size == next.by.before &&
        last.reduction == next.reduction) {
      last.by.size *= next.by.size;
    } else {
      partials[++kept] = next;
    }
  }
  if (!partials.empty()) partials.resize(kept + 1);
}

// Checks that the sub-axes in use, and the factors of the axis in the mesh, have a common factorization.
void check_use(const Mesh& mesh, const LayoutParts& parts) {
  std::vector<SubAxis> used;
  for (const DimShardings& dim : parts.dims) {
    for (const Sharding& sharding : dim.shardings) used.push_back(sharding.by);
  }
  for (const PartialAxis& partial : parts.partials) used.push_back(partial.by);
  std::sort(used.begin(), used.end());
  for (std::size_t i = 1; i < used.size(); ++i) {
    const SubAxis& a = used[i - 1];
    const SubAxis& b = used[i];
    if (a.axis != b.axis) continue;
    const std::string& name = mesh.axis(a.axis).name;
    TESSERA_CHECK(b.before >= a.before * a.size, "layout: axis '", name, "' is used twice, by sub-axes ",
                  name_of(mesh, a), " and ", name_of(mesh, b), "; each sub-axis can shard one dimension or be partial");
    TESSERA_CHECK(b.before % (a.before * a.size) == 0, "layout: sub-axes ", name_of(mesh, a), " and ", name_of(mesh, b),
                  " of axis '", name, "' do not nest; they must come from one factorization of ",
                  mesh.axis(a.axis).size);
  }
  for (const SubAxis& part : used) {
    const Axis& axis = mesh.axis(part.axis);
    std::int64_t bound = 1;
    for (const RankStep& step : axis.parts) {
      bound *= step.size;
      for (const std::int64_t own : {part.before, part.before * part.size}) {
        TESSERA_CHECK(own % bound == 0 || bound % own == 0, "layout: sub-axis ", name_of(mesh, part), " of axis '",
                      axis.name, "' splits an axis that was flattened into it, in mesh ", mesh.text());
      }
    }
  }
}

}  // namespace

std::string name_of(const Mesh& mesh, const SubAxis& part) {
  const Axis& axis = mesh.axis(part.axis);
  if (part.size == axis.size) return axis.name;
  return concat(axis.name, "(", part.before, ":", part.size, ")");
}

void canonicalize(const Mesh& mesh, LayoutParts& parts) {
  TESSERA_CHECK(parts.dims.size() <= kMaxDims, "layout: number of dimensions must be at most ", kMaxDims, ", got ",
                parts.dims.size());
  for (std::size_t i = 0; i < parts.dims.size(); ++i) canonicalize_dim(mesh, static_cast<int>(i), parts.dims[i]);
  while (!parts.dims.empty() && parts.dims.back().shardings.empty()) parts.dims.pop_back();
  canonicalize_partials(mesh, parts.partials);
  check_use(mesh, parts);
}

}  // namespace tessera::layout::detail
