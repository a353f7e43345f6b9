// Process groups along mesh axes. A group holds the ranks that differ only along some axes, major to minor. It is
// created on first use, once per list of ranks, with the backend and the options that the mesh gives its axes:
//
//   AxisSpec::options: ("backend", "shm"), ("deadline_ms", "5000"), ("fixed_order", "false")
//
// Without a backend, a group communicates memory of the default device of the thread that creates it.
// Axes merged in one group must not set an option to different values. An axis without an option accepts any value.
#pragma once

#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"
#include "tessera/comm/process_group.h"
#include "tessera/layout/layout.h"

namespace tessera::shard {

/// Returns the ranks that differ from `rank` only along these sub-axes, in the order of the sub-axes, the last one
/// fastest. Throws InvalidArgument if `rank` is outside the mesh, or if sub-axes overlap or do not belong to an axis.
TESSERA_API std::vector<Rank> ranks_along(const layout::Mesh& mesh, std::span<const layout::SubAxis> axes, Rank rank);

/// Returns the group options that the mesh sets for these axes. Throws InvalidArgument for unknown options (with the
/// nearest name), for invalid values, and for axes with conflicting values.
TESSERA_API comm::GroupOptions group_options(const layout::Mesh& mesh, std::span<const layout::SubAxis> axes);

/// Returns the group of the current rank along these sub-axes. The handle is cached per rank, so later calls are
/// look-ups. Throws InvalidArgument outside the mesh.
TESSERA_API const comm::ProcessGroup& group_along(const layout::Mesh& mesh, std::span<const layout::SubAxis> axes);
/// Returns the group of all ranks of the mesh, in mesh order.
TESSERA_API const comm::ProcessGroup& group_of_mesh(const layout::Mesh& mesh);

}  // namespace tessera::shard
