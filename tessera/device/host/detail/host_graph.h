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

/// Captured nodes. Never changes, so it is thread-safe.
class HostGraph : public GraphBackend {
 public:
  explicit HostGraph(std::shared_ptr<const GraphNodes> nodes) : nodes_(std::move(nodes)) {}
  std::vector<NodeInfo> nodes() override;
  std::unique_ptr<GraphBackend> clone() override;
  /// The nodes with their work.
  [[nodiscard]] const std::shared_ptr<const GraphNodes>& work() const { return nodes_; }

 private:
  std::shared_ptr<const GraphNodes> nodes_;
};

/// A graph made ready. Launches of it form a chain: each waits for the one before, whatever their streams. Thread-safe.
class HostGraphExec : public GraphExecBackend {
 public:
  HostGraphExec(std::shared_ptr<HostShared> shared, std::shared_ptr<ReplayPool> pool,
                std::shared_ptr<const GraphNodes> nodes, InstantiateOptions options);
  UpdateResult update(GraphBackend& graph) override;
  /// Puts a replay on a stream.
  void launch(StreamCore& core);
  /// The nodes it replays now.
  [[nodiscard]] std::shared_ptr<const GraphNodes> work() const;

 private:
  const std::shared_ptr<HostShared> shared_;
  const std::shared_ptr<ReplayPool> pool_;
  const InstantiateOptions options_;
  mutable std::mutex mutex_;
  std::shared_ptr<const GraphNodes> nodes_;
  std::shared_ptr<GraphPlan> plan_;
  Point last_;  // the end of the latest launch
};

}  // namespace tessera::device::host::detail
