// What is known of captures beyond what the driver keeps: labels and declared accesses of nodes, what must outlive the
// graph, and how much of the graph spins. The driver is the truth on which stream captures and on the edges.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tessera/device/cuda/driver.h"
#include "tessera/device/cuda/spin_budget.h"
#include "tessera/device/graph.h"

namespace tessera::device::cuda {

class CudaContext;

/// What a captured launch said about itself.
struct NodeLabel {
  std::string label;
  std::vector<Access> accesses;
  bool has_declared_accesses = false;
};
using NodeLabels = std::unordered_map<CUgraphNode, NodeLabel>;

/// What spins in a graph at most at one time.
struct SpinTotals {
  SpinShare share = 0;
  int streams = 0;
};

/// What a graph leaves behind when its capture ends.
struct CaptureNotes {
  NodeLabels labels;
  std::vector<std::shared_ptr<void>> keeps;  ///< kernels, events and executables that its nodes use
  SpinTotals spins;
};

/// A capture under way. Thread-safe.
class Capture {
 public:
  explicit Capture(std::uint64_t id) : id_(id) {}
  [[nodiscard]] std::uint64_t id() const { return id_; }
  /// What `node` said about itself.
  void label(CUgraphNode node, const LaunchInfo& info);
  /// `thing` must live as long as the graph.
  void keep(const std::shared_ptr<void>& thing);
  /// Something captured from `stream` spins. What one stream captures runs in order, so the most of it counts.
  void spin(const void* stream, SpinTotals spins);
  /// Nodes that the driver named; those with a label are known without.
  void know(std::span<const CUgraphNode> nodes);
  /// Whether the driver ever named this node to us.
  [[nodiscard]] bool knows(CUgraphNode node) const;
  /// All notes; the capture is over and keeps nothing.
  CaptureNotes take();
  /// Whether it still goes on; false once the registry has let go of it.
  [[nodiscard]] bool is_active() const { return is_active_.load(std::memory_order_acquire); }
  void set_over() { is_active_.store(false, std::memory_order_release); }

 private:
  const std::uint64_t id_;
  std::atomic<bool> is_active_{true};
  mutable std::mutex mutex_;
  CaptureNotes notes_;
  std::unordered_set<const void*> kept_;
  std::unordered_set<CUgraphNode> known_;
  std::map<const void*, SpinTotals> spins_;
};

/// The captures under way on one device. Thread-safe.
class CaptureRegistry {
 public:
  /// Whether there is any; one load.
  [[nodiscard]] bool any() const { return count_.load(std::memory_order_relaxed) != 0; }
  std::shared_ptr<Capture> begin(std::uint64_t id);
  void end(std::uint64_t id);
  /// Null: not one of ours, or over.
  std::shared_ptr<Capture> find(std::uint64_t id) const;

 private:
  std::atomic<std::size_t> count_{0};
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Capture>> captures_;
};

/// The driver's word on a stream. The arrays are the driver's and last until the next operation of the capture.
struct CaptureView {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  std::uint64_t id = 0;
  CUgraph graph = nullptr;
  std::span<const CUgraphNode> nodes;      ///< what the next operation will depend on
  const CUgraphEdgeData* edges = nullptr;  ///< how, one for each of nodes; null: full
  [[nodiscard]] bool is_active() const { return status == CU_STREAM_CAPTURE_STATUS_ACTIVE; }
};
CaptureView view_capture(CudaContext& context, CUstream stream);

/// What an edge promises.
EdgeKind edge_kind(const CUgraphEdgeData& edge);
/// The incoming edges of a node.
Dependencies dependencies_of(CudaContext& context, CUgraphNode node);
/// A node's number, and back.
inline NodeId node_id(CUgraphNode node) { return NodeId(reinterpret_cast<std::uintptr_t>(node)); }
inline CUgraphNode node_of(NodeId id) { return reinterpret_cast<CUgraphNode>(static_cast<std::uintptr_t>(id.value())); }

}  // namespace tessera::device::cuda
