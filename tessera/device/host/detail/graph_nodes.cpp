#include "tessera/device/host/detail/graph_nodes.h"

namespace tessera::device::host::detail {

NodeInfo GraphNodes::info(std::size_t place) const {
  const GraphNode& node = (*this)[place];
  NodeInfo info;
  info.id = NodeId(place + 1);
  info.kind = node.kind;
  info.label = node.label;
  if (node.extras != nullptr) info.accesses = node.extras->accesses;
  info.has_declared_accesses = node.has_declared_accesses;
  info.dependencies.assign(node.edges);
  return info;
}

}  // namespace tessera::device::host::detail
