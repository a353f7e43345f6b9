// A graph made ready for replay: its nodes flattened (graphs inside it opened up, empty nodes dissolved into edges)
// into one array in topological order, so that a serial replay is a loop over closures.
//
// Replays of a plan never overlap: they are launches of one executable. An event node works on a point that is fixed
// when the graph is launched, so that who waits on the event after the launch waits for this replay.
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

/// The points of one launch's event nodes, in the plan's order.
struct LaunchPoints {
  std::vector<Point> points;                                       ///< to be reached, or waited for
  std::vector<std::shared_ptr<std::atomic<std::int64_t>>> stamps;  ///< of records of events with timing
};

/// What a thread runs in its scope is of this replay.
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

/// See the file's head. prepare() is thread-safe, replay() and give_up() are called by one thread at a time.
class GraphPlan {
 public:
  /// Flattens `nodes`.
  GraphPlan(std::shared_ptr<HostShared> shared, std::shared_ptr<ReplayPool> pool,
            std::shared_ptr<const GraphNodes> nodes, InstantiateOptions::Parallel parallel);
  GraphPlan(const GraphPlan&) = delete;
  GraphPlan& operator=(const GraphPlan&) = delete;

  /// Whether a replay may wait for something outside.
  [[nodiscard]] bool may_wait() const { return may_wait_; }
  /// Fixes the points of a launch: events recorded by it move, events waited for are looked up.
  [[nodiscard]] std::unique_ptr<LaunchPoints> prepare() const;
  /// Runs all nodes, as this replay. When one throws the rest is skipped and the events of the launch fail with it.
  void replay(LaunchPoints* points, RunningNode number);
  /// Fails the events of a launch that is not to run.
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
  const std::shared_ptr<const GraphNodes> nodes_;  // keeps the work
  const InstantiateOptions::Parallel parallel_;
  bool may_wait_ = false;
  std::vector<std::unique_ptr<EventNode>> events_;
  std::vector<HostFunction*> steps_;                // in topological order
  std::vector<std::uint32_t> nodes_of_;             // of each step, the node of the graph that it belongs to
  std::vector<std::vector<std::uint32_t>> before_;  // of each step, what it depends on
  std::vector<std::vector<std::uint32_t>> after_;   // of each step, what depends on it
  std::size_t width_ = 1;                           // the most steps that could run side by side
  LaunchPoints* current_ = nullptr;                 // of the replay going on
  RunningNode number_;                              // likewise
  std::uint64_t replays_ = 0;
  bool pays_in_parallel_ = false;
};

}  // namespace tessera::device::host::detail
