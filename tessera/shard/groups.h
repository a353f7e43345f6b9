// Who talks to whom on a mesh. A group is the ranks that differ along some axes alone, major to minor; it is made when
// first asked for, once for each set of ranks, on the backend and with the options that the mesh gives its axes
// (AxisSpec::options: "backend", "deadline_ms", "fixed_order"). Axes that are merged in one step must not ask for
// different things.
#pragma once

#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"
#include "tessera/comm/process_group.h"
#include "tessera/layout/layout.h"

namespace tessera::shard {

/// The ranks that differ from `rank` along these (parts of) axes alone, in their order, the last one fastest.
TESSERA_API std::vector<Rank> ranks_along(const layout::Mesh& mesh, std::span<const layout::SubAxis> axes, Rank rank);

/// The group of the current rank along these (parts of) axes. A handle of this rank's, kept: asking again is a look-up.
/// InvalidArgument off the mesh.
TESSERA_API const comm::ProcessGroup& group_along(const layout::Mesh& mesh, std::span<const layout::SubAxis> axes);

}  // namespace tessera::shard
