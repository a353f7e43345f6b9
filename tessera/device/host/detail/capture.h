// A capture that goes on: the nodes so far. Each stream in it holds the capture and its own set of dependencies; ending
// it is one flag, which every stream looks at, so that no stream is changed from outside.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "tessera/device/host/detail/bell.h"
#include "tessera/device/host/detail/graph_nodes.h"

namespace tessera::device::host::detail {

/// Thread-safe.
class Capture {
 public:
  Capture();
  /// Unique in the process.
  [[nodiscard]] CaptureId id() const { return id_; }
  /// Whether it still goes on.
  [[nodiscard]] bool is_active() const { return active_.load(); }
  /// Adds a node, which `fill` sets up, and returns its id.
  template <class Fill>
  NodeId add(const Fill& fill) {
    const std::lock_guard lock(lock_);
    return nodes_.add(fill);
  }
  /// Ends it and returns the nodes, each after what it depends on.
  [[nodiscard]] GraphNodes end();
  /// The incoming edges of a node.
  [[nodiscard]] Dependencies predecessors(NodeId node) const;
  /// Refuses nodes that are not there.
  void check_nodes(std::span<const NodeId> nodes) const;

 private:
  void check_node(NodeId node) const;

  const CaptureId id_;
  std::atomic<bool> active_{true};
  mutable SpinLock lock_;
  GraphNodes nodes_;
};

/// Where a stream stands in a capture. It belongs to the stream itself, so that every handle on the stream, wrapped
/// ones too, sees the same capture. Guarded by its lock, which handles of one stream alone ever contend for.
struct CaptureLane {
  std::atomic<bool> may_capture{false};   ///< false: certainly not; read without the lock
  SpinLock lock;                          ///< taken by each call of a handle that may touch the rest
  std::shared_ptr<Capture> capture;       ///< null, or one that may have ended meanwhile
  Dependencies dependencies;              ///< of the next node
  NodeId last_launch;                     ///< the latest kernel or host node
  std::atomic<std::uint64_t> changes{0};  ///< of capture and dependencies; read without the lock

  /// Enters a capture at these nodes.
  void enter(std::shared_ptr<Capture> joined, Dependencies at) {
    capture = std::move(joined);
    dependencies = std::move(at);
    last_launch = {};
    may_capture = true;
    note_change();
  }
  /// Leaves it.
  void leave() {
    capture = nullptr;
    dependencies.clear();
    may_capture = false;
    note_change();
  }
  /// After each change; the lock is held.
  void note_change() { changes.store(changes.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
};

}  // namespace tessera::device::host::detail
