// The nodes of a captured graph. Nodes are appended and never moved: they are stored in chunks, with work and short
// edge lists in place, so that a capture hardly allocates. After the capture nothing changes, and graphs, executables
// and graph nodes of other graphs share the same list.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/small_vector.h"
#include "tessera/device/graph.h"
#include "tessera/device/host_function.h"

namespace tessera::device::host::detail {

class HostEvent;
class GraphNodes;

/// Data that few nodes have.
struct NodeExtras {
  std::shared_ptr<HostEvent> event = nullptr;         ///< event of an event node
  std::shared_ptr<const GraphNodes> child = nullptr;  ///< graph of a graph node
  std::vector<Access> accesses = {};                  ///< declared accesses, on a checked device
};

/// One node and its work.
struct GraphNode {
  mutable HostFunction work;           ///< empty for event and graph nodes; shared by all replays
  SmallVector<Dependency, 2> edges;    ///< incoming edges
  std::string label;                   ///< label of the launch
  std::unique_ptr<NodeExtras> extras;  ///< null for most nodes
  NodeKind kind = NodeKind::kOther;    ///< kind of the node
  bool may_wait = false;               ///< the work may wait for something outside
  bool has_declared_accesses = false;  ///< true if it declared its accesses
};

/// A list of nodes in topological order: the node with id n is at index n - 1.
class GraphNodes {
 public:
  /// Returns the number of nodes.
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Returns a node by its index.
  [[nodiscard]] const GraphNode& operator[](std::size_t place) const { return chunks_[place / kChunk][place % kChunk]; }
  /// Adds a node, which `fill` sets up, and returns its id. If `fill` throws, adds nothing.
  template <class Fill>
  NodeId add(const Fill& fill) {
    if (size_ == chunks_.size() * kChunk) chunks_.push_back(std::make_unique_for_overwrite<GraphNode[]>(kChunk));
    fill(chunks_.back()[size_ % kChunk]);
    return NodeId(++size_);
  }
  /// Returns the public description of a node.
  [[nodiscard]] NodeInfo info(std::size_t place) const;

 private:
  static constexpr std::size_t kChunk = 64;
  std::vector<std::unique_ptr<GraphNode[]>> chunks_;
  std::size_t size_ = 0;
};

}  // namespace tessera::device::host::detail
