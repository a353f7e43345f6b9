#include "tessera/device/host/detail/capture.h"

#include "tessera/base/error.h"

namespace tessera::device::host::detail {
namespace {

CaptureId next_capture() {
  static std::atomic<std::uint64_t> latest{0};
  return CaptureId(++latest);
}

}  // namespace

HostCapture::HostCapture() : id_(next_capture()) {}

GraphNodes HostCapture::end() {
  active_.store(false);
  const std::lock_guard lock(lock_);
  return std::exchange(nodes_, {});
}

Dependencies HostCapture::predecessors(NodeId node) const {
  const std::lock_guard lock(lock_);
  check_node(node);
  Dependencies edges;
  edges.append(nodes_[node.value() - 1].edges);
  return edges;
}

void HostCapture::check_nodes(std::span<const NodeId> nodes) const {
  const std::lock_guard lock(lock_);
  for (const NodeId node : nodes) check_node(node);
}

void HostCapture::check_node(NodeId node) const {
  TESSERA_CHECK(node.value() >= 1 && node.value() <= nodes_.size(), "capture ", id_, ": node must be in [1, ",
                nodes_.size(), "], got ", node);
}

}  // namespace tessera::device::host::detail
