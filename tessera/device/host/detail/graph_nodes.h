// The nodes of a captured graph. Nodes are added at the end and never moved: they lie in chunks, work and short lists
// of edges in place, so that capturing an operation allocates next to nothing. Once the capture has ended nothing
// changes any more, and graphs, executables and graph nodes of other graphs share the same list.
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

/// What few nodes have.
struct NodeExtras {
  std::shared_ptr<HostEvent> event = nullptr;         ///< of an event node
  std::shared_ptr<const GraphNodes> child = nullptr;  ///< of a graph node
  std::vector<Access> accesses = {};                  ///< declared, on a checked device
};

/// One node and its work.
struct GraphNode {
  mutable HostFunction work;           ///< none: an event or graph node; shared by all replays
  SmallVector<Dependency, 2> edges;    ///< incoming
  std::string label;                   ///< of the launch
  std::unique_ptr<NodeExtras> extras;  ///< null: none
  NodeKind kind = NodeKind::kOther;    ///< what it does
  bool may_wait = false;               ///< the work may wait for something outside
  bool has_declared_accesses = false;  ///< whether it declared what it touches
};

/// A list of nodes, each after what it depends on: the node with id n stands at n - 1.
class GraphNodes {
 public:
  /// How many there are.
  [[nodiscard]] std::size_t size() const { return size_; }
  /// A node by its place.
  [[nodiscard]] const GraphNode& operator[](std::size_t place) const { return chunks_[place / kChunk][place % kChunk]; }
  /// Adds a node, which `fill` sets up; when that throws, nothing is added. Returns its id.
  template <class Fill>
  NodeId add(const Fill& fill) {
    if (size_ == chunks_.size() * kChunk) chunks_.push_back(std::make_unique_for_overwrite<GraphNode[]>(kChunk));
    fill(chunks_.back()[size_ % kChunk]);
    return NodeId(++size_);
  }
  /// What people see of a node.
  [[nodiscard]] NodeInfo info(std::size_t place) const;

 private:
  static constexpr std::size_t kChunk = 64;
  std::vector<std::unique_ptr<GraphNode[]>> chunks_;
  std::size_t size_ = 0;
};

}  // namespace tessera::device::host::detail
