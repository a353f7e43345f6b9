// An active capture: the nodes so far. Each stream in it holds the capture and its own set of dependencies. The capture
// ends by one flag that every stream reads, so that no stream is changed by another.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "tessera/device/host/detail/bell.h"
#include "tessera/device/host/detail/graph_nodes.h"

namespace tessera::device::host::detail {

/// An active capture. Thread-safe.
class HostCapture {
 public:
  HostCapture();
  /// Returns the id, unique in the process.
  [[nodiscard]] CaptureId id() const { return id_; }
  /// Returns true while the capture is active.
  [[nodiscard]] bool is_active() const { return active_.load(); }
  /// Adds a node, which `fill` sets up, and returns its id.
  template <class Fill>
  NodeId add(const Fill& fill) {
    const std::lock_guard lock(lock_);
    return nodes_.add(fill);
  }
  /// Ends the capture and returns the nodes in topological order.
  [[nodiscard]] GraphNodes end();
  /// Returns the incoming edges of a node.
  [[nodiscard]] Dependencies predecessors(NodeId node) const;
  /// Throws if a node does not exist.
  void check_nodes(std::span<const NodeId> nodes) const;

 private:
  void check_node(NodeId node) const;

  const CaptureId id_;
  std::atomic<bool> active_{true};
  mutable SpinLock lock_;
  GraphNodes nodes_;
};

/// The state of a stream in a capture. It belongs to the stream itself, so that every handle to the stream, including
/// wrapped ones, sees the same capture. Protected by its lock, which only handles of one stream contend for.
struct CaptureLane {
  std::atomic<bool> may_capture{false};   ///< if false, it does not capture; read without the lock
  SpinLock lock;                          ///< taken by each call of a handle that may access the other fields
  std::shared_ptr<HostCapture> capture;   ///< null, or a capture that may have ended meanwhile
  Dependencies dependencies;              ///< dependencies of the next node
  NodeId last_launch;                     ///< latest kernel or host node
  std::atomic<std::uint64_t> changes{0};  ///< number of changes of capture and dependencies; read without the lock

  /// Enters a capture at these nodes.
  void enter(std::shared_ptr<HostCapture> joined, Dependencies at) {
    capture = std::move(joined);
    dependencies = std::move(at);
    last_launch = {};
    may_capture = true;
    note_change();
  }
  /// Leaves the capture.
  void leave() {
    capture = nullptr;
    dependencies.clear();
    may_capture = false;
    note_change();
  }
  /// Called after each change, with the lock held.
  void note_change() { changes.store(changes.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
};

}  // namespace tessera::device::host::detail
