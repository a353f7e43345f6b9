// Describes the tensor of an operation, to detect ranks whose tensors differ in shape, dimension or layout even if the
// number of elements is the same.
//
//   set_geometry(operation.geometry, shape, {.layouts = digest_of(before, after)});
#pragma once

#include <bit>
#include <cstdint>

#include "tessera/base/shape.h"
#include "tessera/comm/operation.h"
#include "tessera/layout/layout.h"

namespace tessera::shard::detail {

/// Digest of the layouts before and after an operation; never 0.
inline std::uint64_t digest_of(const layout::Layout& before, const layout::Layout& after) {
  const layout::LayoutHash a = before.hash();
  const layout::LayoutHash b = after.hash();
  return (a.low ^ std::rotl(b.low, 21) ^ std::rotl(b.high, 42)) | 1;
}

/// Fields of a geometry besides the sizes.
struct GeometryOf {
  int split = -1;             ///< Value of Geometry::split.
  int concat = -1;            ///< Value of Geometry::concat.
  std::uint64_t layouts = 0;  ///< Value of Geometry::layouts.
};
/// Describes a tensor of this shape; `out` must be empty.
inline void set_geometry(comm::Geometry& out, const Shape& shape, const GeometryOf& how = {}) {
  out.is_stated = true;
  out.split = static_cast<std::int8_t>(how.split);
  out.concat = static_cast<std::int8_t>(how.concat);
  out.layouts = how.layouts;
  for (const std::int64_t size : shape) out.sizes.push_back(size);
}

/// Describes a tensor of this global shape that is redistributed. `split` and `concat` are the last dimensions with
/// more and with fewer cuts after it.
inline void set_geometry_between(comm::Geometry& out, const Shape& shape, const layout::Layout& before,
                                 const layout::Layout& after) {
  GeometryOf how{.layouts = digest_of(before, after)};
  for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
    const std::size_t old_shardings = before.shardings(dim).size();
    const std::size_t new_shardings = after.shardings(dim).size();
    if (old_shardings < new_shardings) how.split = dim;
    if (old_shardings > new_shardings) how.concat = dim;
  }
  set_geometry(out, shape, how);
}

}  // namespace tessera::shard::detail
