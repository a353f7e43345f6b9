// Who talks to whom on a mesh. A group is the ranks that differ along some axes alone, major to minor; it is made when
// first asked for, once for each list of ranks, on the backend and with the options that the mesh gives its axes:
//
//   AxisSpec::options: ("backend", "shm"), ("deadline_ms", "5000"), ("fixed_order", "false")
//
// Axes that are merged in one group must not ask for different things; one that asks for nothing goes along.
#pragma once

#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"
#include "tessera/comm/process_group.h"
#include "tessera/layout/layout.h"

namespace tessera::shard {

/// The ranks that differ from `rank` along these (parts of) axes alone, in their order, the last one fastest.
/// InvalidArgument off the mesh, and for parts that are none of an axis or overlap.
TESSERA_API std::vector<Rank> ranks_along(const layout::Mesh& mesh, std::span<const layout::SubAxis> axes, Rank rank);

/// What the mesh asks for in groups along these axes. InvalidArgument names options that there are not (and the nearest
/// that there is), values that make no sense, and axes that ask for different things.
TESSERA_API comm::GroupOptions group_options(const layout::Mesh& mesh, std::span<const layout::SubAxis> axes);

/// The group of the current rank along these (parts of) axes. A handle of this rank's, kept: asking again is a look-up.
/// InvalidArgument off the mesh.
TESSERA_API const comm::ProcessGroup& group_along(const layout::Mesh& mesh, std::span<const layout::SubAxis> axes);
/// The group of all ranks of the mesh, in its order.
TESSERA_API const comm::ProcessGroup& group_of_mesh(const layout::Mesh& mesh);

}  // namespace tessera::shard
