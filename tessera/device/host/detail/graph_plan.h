// A graph prepared for replay: its nodes are flattened (nested graphs are expanded, empty nodes become edges) into one
// array in topological order, so that a serial replay is a loop over closures.
//
// Replays of a plan never overlap: they are launches of one executable. The point of an event node is fixed when the
// graph is launched, so that a wait on the event after the launch waits for this replay.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "tessera/device/graph.h"
#include "tessera/device/host/detail/graph_nodes.h"
#include "tessera/device/host/detail/host_shared.h"
#include "tessera/device/host/detail/timeline.h"
#include "tessera/device/host_function.h"
#include "tessera/device/replay.h"

namespace tessera::device::host::detail {

class ReplayPool;

/// The points of one launch's event nodes, in the order of the plan.
struct LaunchPoints {
  std::vector<Point> points;                                       ///< points to reach, or to wait for
  std::vector<std::shared_ptr<std::atomic<std::int64_t>>> stamps;  ///< time stamps for records of events with timing
};

/// Sets the current replay of a thread while it lives.
class ReplayScope {
 public:
  explicit ReplayScope(RunningNode number) : before_(device::detail::running_node) {
    device::detail::running_node = number;
  }
  ~ReplayScope() { device::detail::running_node = before_; }
  ReplayScope(const ReplayScope&) = delete;
  ReplayScope& operator=(const ReplayScope&) = delete;

 private:
  const RunningNode before_;
};

/// A plan. prepare() is thread-safe; one thread at a time calls replay() and give_up().
class GraphPlan {
 public:
  /// Flattens `nodes`.
  GraphPlan(std::shared_ptr<HostShared> shared, std::shared_ptr<ReplayPool> pool,
            std::shared_ptr<const GraphNodes> nodes, InstantiateOptions::Parallel parallel);
  GraphPlan(const GraphPlan&) = delete;
  GraphPlan& operator=(const GraphPlan&) = delete;

  /// Returns true if a replay may wait for something outside.
  [[nodiscard]] bool may_wait() const { return may_wait_; }
  /// Fixes the points of a launch: moves the events that it records, and looks up the events that it waits for.
  [[nodiscard]] std::unique_ptr<LaunchPoints> prepare() const;
  /// Runs all nodes as this replay. If one throws, skips the rest and fails the events of the launch.
  void replay(LaunchPoints* points, RunningNode number);
  /// Fails the events of a launch that will not run.
  void give_up(LaunchPoints* points, const std::exception_ptr& error) const;

 private:
  friend class ReplayJob;
  struct EventNode {
    std::shared_ptr<HostEvent> event;
    bool records;
    HostFunction work;
  };
  struct Flattener;

  void choose_width();
  void run_step(std::size_t step) const {
    device::detail::running_node.node = nodes_of_[step];
    (*steps_[step])();
  }
  void replay_serial();
  void replay_measured();
  void replay_seeded();
  void run_event_node(std::size_t index);

  const std::shared_ptr<HostShared> shared_;
  const std::shared_ptr<ReplayPool> pool_;
  const std::shared_ptr<const GraphNodes> nodes_;  // keeps the work alive
  const InstantiateOptions::Parallel parallel_;
  bool may_wait_ = false;
  std::vector<std::unique_ptr<EventNode>> events_;
  std::vector<HostFunction*> steps_;                // in topological order
  std::vector<std::uint32_t> nodes_of_;             // per step: the node of the graph that it belongs to
  std::vector<std::vector<std::uint32_t>> before_;  // per step: the steps it depends on
  std::vector<std::vector<std::uint32_t>> after_;   // per step: the steps that depend on it
  std::size_t width_ = 1;                           // maximum number of concurrent steps
  LaunchPoints* current_ = nullptr;                 // points of the active replay
  RunningNode number_;                              // number of the active replay
  std::uint64_t replays_ = 0;
  bool pays_in_parallel_ = false;
};

}  // namespace tessera::device::host::detail
