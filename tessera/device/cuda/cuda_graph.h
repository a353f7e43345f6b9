// Graphs and executables. An executable is created from its own copy of the graph. Host functions in the copy are bound
// to this executable (host_call.h), and the copy becomes a node when the executable is launched into a capture.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/device/backend.h"
#include "tessera/device/cuda/cuda_capture.h"
#include "tessera/device/cuda/host_call.h"

namespace tessera::device::cuda {

class CudaContext;

/// Returns the nodes of a graph, in the driver's order.
std::vector<CUgraphNode> nodes_of(CudaContext& context, CUgraph graph);

/// A graph. The layer above calls one method at a time.
class CudaGraph : public GraphBackend {
 public:
  /// Takes ownership of `graph`.
  CudaGraph(CudaContext& context, CUgraph graph, CaptureNotes notes)
      : context_(context), graph_(graph), notes_(std::move(notes)) {}
  ~CudaGraph() override;
  std::vector<NodeInfo> nodes() override;
  std::unique_ptr<GraphBackend> clone() override;
  /// Returns a copy whose host functions report to `runs` (null: to none yet). Sets `calls` to their number.
  std::unique_ptr<CudaGraph> copy_for(const std::shared_ptr<GraphRuns>& runs, std::size_t& calls);
  /// Describes a node for messages: its label and kind.
  std::string describe(CUgraphNode node);

  [[nodiscard]] CUgraph graph() const { return graph_; }
  [[nodiscard]] SpinTotals spins() const { return notes_.spins; }
  [[nodiscard]] const std::vector<std::shared_ptr<void>>& keeps() const { return notes_.keeps; }

 private:
  NodeInfo info_of(CUgraphNode node);
  std::string kernel_name(CUgraphNode node);

  CudaContext& context_;
  CUgraph graph_;
  CaptureNotes notes_;
};

/// An executable. The layer above calls one method at a time, even for different streams.
class CudaGraphExec : public GraphExecBackend {
 public:
  CudaGraphExec(CudaContext& context, CudaGraph& graph);
  ~CudaGraphExec() override;
  UpdateResult update(GraphBackend& graph) override;
  /// Replays on `stream`; errors of host functions are parked in `errors`.
  void launch(CUstream stream, const std::shared_ptr<StreamErrors>& errors);
  /// Returns the graph that it runs.
  [[nodiscard]] CudaGraph& source() { return *source_; }

 private:
  UpdateResult refuse(CudaGraph& graph, const CUgraphExecUpdateResultInfo& info);

  CudaContext& context_;
  std::shared_ptr<GraphRuns> runs_ = std::make_shared<GraphRuns>();
  std::unique_ptr<CudaGraph> source_;
  std::size_t calls_ = 0;  // number of host functions in source_
  CUgraphExec exec_ = nullptr;
};

}  // namespace tessera::device::cuda
