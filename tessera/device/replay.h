// The node and replay that the current thread runs. The host device sets it while it replays a graph, so that the work
// can identify itself. Devices that replay without the host do not set it.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"

namespace tessera::device {

/// A node in a replay of a graph.
struct RunningNode {
  std::uint64_t replay = 0;  ///< number of the launch of the executable graph, from 1; 0 outside a replay
  std::uint32_t graph = 0;   ///< number of the executable graph in this process, from 1
  std::uint32_t node = 0;    ///< NodeId in the graph; for a nested graph, the id of its graph node
};

namespace detail {
/// Node of this thread. The initial-exec model avoids a call per access.
[[gnu::tls_model("initial-exec")]] extern TESSERA_API constinit thread_local RunningNode running_node;
}  // namespace detail

/// Returns the node that this thread runs.
inline RunningNode running_node() { return detail::running_node; }

}  // namespace tessera::device
