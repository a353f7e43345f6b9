#include "tessera/device/host/detail/capture.h"

namespace tessera::device::host::detail {
namespace {

CaptureId next_capture() {
  static std::atomic<std::uint64_t> latest{0};
  return CaptureId(++latest);
}

}  // namespace

Capture::Capture() : id_(next_capture()) {}

NodeId Capture::add(GraphNode node) {
  const std::lock_guard lock(mutex_);
  node.info.id = NodeId(nodes_.size() + 1);
  nodes_.push_back(std::move(node));
  return nodes_.back().info.id;
}

GraphNodes Capture::end() {
  active_.store(false);
  const std::lock_guard lock(mutex_);
  return std::exchange(nodes_, {});
}

std::vector<Dependency> Capture::predecessors(NodeId node) const {
  const NodeId nodes[] = {node};
  check_nodes(nodes);
  const std::lock_guard lock(mutex_);
  return nodes_[node.value() - 1].info.dependencies;
}

void Capture::check_nodes(std::span<const NodeId> nodes) const {
  const std::lock_guard lock(mutex_);
  for (const NodeId node : nodes) {
    TESSERA_CHECK(node.value() >= 1 && node.value() <= nodes_.size(), "capture ", id_, " has no node ", node,
                  "; its nodes are 1 to ", nodes_.size());
  }
}

}  // namespace tessera::device::host::detail
