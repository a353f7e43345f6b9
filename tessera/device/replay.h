// Which node of which replay a thread runs: set by the host device while it replays a graph, so that work inside it can
// say where it stands. Devices that replay by themselves set nothing.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"

namespace tessera::device {

/// A node in a replay of a graph.
struct RunningNode {
  std::uint64_t replay = 0;  ///< which launch of the executable, from 1; 0: no replay
  std::uint32_t graph = 0;   ///< number of the executable in this process, from 1
  std::uint32_t node = 0;    ///< NodeId in the graph; of what is inside a graph node, the id of that
};

namespace detail {
/// Of this thread. Initial-exec: no call to find it.
[[gnu::tls_model("initial-exec")]] extern TESSERA_API constinit thread_local RunningNode running_node;
}  // namespace detail

/// The node that this thread runs.
inline RunningNode running_node() { return detail::running_node; }

}  // namespace tessera::device
