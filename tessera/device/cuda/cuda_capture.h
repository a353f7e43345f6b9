// Data of captures that the driver does not keep: labels and declared accesses of nodes, objects that must outlive the
// graph, and the amount of spinning work. The driver decides which stream captures and which edges exist.
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

/// Label and accesses of a captured launch.
struct NodeLabel {
  std::string label;
  std::vector<Access> accesses;
  bool has_declared_accesses = false;
};
using NodeLabels = std::unordered_map<CUgraphNode, NodeLabel>;

/// Maximum concurrent spinning work of a graph.
struct SpinTotals {
  SpinShare share = 0;
  int streams = 0;
};

/// Data of a graph after its capture ends.
struct CaptureNotes {
  NodeLabels labels;
  std::vector<std::shared_ptr<void>> keeps;  ///< kernels, events and executables that its nodes use
  SpinTotals spins;
};

/// An active capture. Thread-safe.
class CudaCapture {
 public:
  explicit CudaCapture(std::uint64_t id) : id_(id) {}
  [[nodiscard]] std::uint64_t id() const { return id_; }
  /// Notes the label and accesses of `node`.
  void label(CUgraphNode node, const LaunchInfo& info);
  /// Keeps `thing` alive as long as the graph.
  void keep(const std::shared_ptr<void>& thing);
  /// Notes that captured work of `stream` spins. Work of one stream runs in order, so only the maximum counts.
  void spin(const void* stream, SpinTotals spins);
  /// Notes nodes that the driver returned; nodes with a label are known already.
  void know(std::span<const CUgraphNode> nodes);
  /// Returns true if the driver ever returned this node.
  [[nodiscard]] bool knows(CUgraphNode node) const;
  /// Notes the nodes that a library created in one launch_native(), whose edges all order in full: a library keeps the
  /// order of the stream, so that a later operation may start when its last node has completed.
  void order(std::span<const CUgraphNode> nodes);
  /// Returns true if order() noted the node.
  [[nodiscard]] bool is_ordered(CUgraphNode node) const;
  /// Ends the capture and returns all its data.
  CaptureNotes take();
  /// Returns true while the capture is active; false once the registry has released it.
  [[nodiscard]] bool is_active() const { return is_active_.load(std::memory_order_acquire); }
  void set_over() { is_active_.store(false, std::memory_order_release); }

 private:
  const std::uint64_t id_;
  std::atomic<bool> is_active_{true};
  mutable std::mutex mutex_;
  CaptureNotes notes_;
  std::unordered_set<const void*> kept_;
  std::unordered_set<CUgraphNode> known_;
  std::unordered_set<CUgraphNode> ordered_;
  std::map<const void*, SpinTotals> spins_;
};

/// The active captures on one device. Thread-safe.
class CaptureRegistry {
 public:
  /// Returns true if there is any; one load.
  [[nodiscard]] bool any() const { return count_.load(std::memory_order_relaxed) != 0; }
  std::shared_ptr<CudaCapture> begin(std::uint64_t id);
  void end(std::uint64_t id);
  /// Returns null if the capture was not begun by Tessera, or has ended.
  std::shared_ptr<CudaCapture> find(std::uint64_t id) const;

 private:
  std::atomic<std::size_t> count_{0};
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<CudaCapture>> captures_;
};

/// The driver's capture state of a stream. The driver owns the arrays, which are valid until the next operation of the
/// capture.
struct CaptureView {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  std::uint64_t id = 0;
  CUgraph graph = nullptr;
  std::span<const CUgraphNode> nodes;      ///< dependencies of the next operation
  const CUgraphEdgeData* edges = nullptr;  ///< kind of each dependency; null: all full
  [[nodiscard]] bool is_active() const { return status == CU_STREAM_CAPTURE_STATUS_ACTIVE; }
};
CaptureView view_capture(CudaContext& context, CUstream stream);

/// Returns the order that an edge guarantees.
EdgeKind edge_kind(const CUgraphEdgeData& edge);
/// Returns the incoming edges of a node.
Dependencies dependencies_of(CudaContext& context, CUgraphNode node);
/// Convert between a node and its id.
inline NodeId node_id(CUgraphNode node) { return NodeId(reinterpret_cast<std::uintptr_t>(node)); }
inline CUgraphNode node_of(NodeId id) { return reinterpret_cast<CUgraphNode>(static_cast<std::uintptr_t>(id.value())); }

}  // namespace tessera::device::cuda
