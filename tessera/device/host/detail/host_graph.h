// Graphs of the host device and their executables.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tessera/device/backend.h"
#include "tessera/device/host/detail/graph_plan.h"
#include "tessera/device/host/detail/stream_core.h"

namespace tessera::device::host::detail {

/// Captured nodes. Immutable, and so thread-safe.
class HostGraph : public GraphBackend {
 public:
  explicit HostGraph(std::shared_ptr<const GraphNodes> nodes) : nodes_(std::move(nodes)) {}
  std::vector<NodeInfo> nodes() override;
  std::unique_ptr<GraphBackend> clone() override;
  /// Returns the nodes with their work.
  [[nodiscard]] const std::shared_ptr<const GraphNodes>& work() const { return nodes_; }

 private:
  std::shared_ptr<const GraphNodes> nodes_;
};

/// An executable graph. Each launch waits for the previous one, even on another stream. Thread-safe.
class HostGraphExec : public GraphExecBackend {
 public:
  HostGraphExec(std::shared_ptr<HostShared> shared, std::shared_ptr<ReplayPool> pool,
                std::shared_ptr<const GraphNodes> nodes, InstantiateOptions options);
  UpdateResult update(GraphBackend& graph) override;
  /// Enqueues a replay on a stream.
  void launch(StreamCore& core);
  /// Returns the nodes that it replays now.
  [[nodiscard]] std::shared_ptr<const GraphNodes> work() const;

 private:
  const std::shared_ptr<HostShared> shared_;
  const std::shared_ptr<ReplayPool> pool_;
  const InstantiateOptions options_;
  mutable std::mutex mutex_;
  std::shared_ptr<const GraphNodes> nodes_;
  std::shared_ptr<GraphPlan> plan_;
  Point last_;  // end of the latest launch
};

}  // namespace tessera::device::host::detail
