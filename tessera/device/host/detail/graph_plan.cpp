#include "tessera/device/host/detail/graph_plan.h"

#include <algorithm>
#include <thread>

#include "tessera/device/host/detail/host_event.h"
#include "tessera/device/host/detail/replay_pool.h"

namespace tessera::device::host::detail {
namespace {

using std::chrono::nanoseconds;
using Steps = std::vector<std::uint32_t>;

// The cost of handing a step to another thread: a wake-up, and the lock of the job per step.
constexpr nanoseconds kHandOver = std::chrono::microseconds(5);
constexpr nanoseconds kPerStep{300};

void merge(Steps& into, const Steps& more) {
  for (const std::uint32_t step : more) {
    if (std::find(into.begin(), into.end(), step) == into.end()) into.push_back(step);
  }
}

}  // namespace

// Flattens the nodes. `done_by` of a node are the steps whose end is the end of the node.
struct GraphPlan::Flattener {
  GraphPlan& plan;
  std::uint32_t depth = 0;       // number of enclosing graphs
  std::uint32_t outer_node = 0;  // node of the outermost graph that is being added

  Steps add(HostFunction* work, Steps before) {
    const auto step = static_cast<std::uint32_t>(plan.steps_.size());
    plan.steps_.push_back(work);
    plan.nodes_of_.push_back(outer_node);
    plan.after_.emplace_back();
    for (const std::uint32_t earlier : before) plan.after_[earlier].push_back(step);
    plan.before_.push_back(std::move(before));
    return {step};
  }

  Steps add_event(const GraphNode& node, Steps before) {
    const std::size_t index = plan.events_.size();
    auto& event = *plan.events_.emplace_back(std::make_unique<EventNode>());
    event.event = node.extras->event;
    event.records = node.kind == NodeKind::kEventRecord;
    event.work = [owner = &plan, index] { owner->run_event_node(index); };
    if (!event.records) plan.may_wait_ = true;
    return add(&event.work, std::move(before));
  }

  Steps add_node(const GraphNode& node, Steps before) {
    plan.may_wait_ = plan.may_wait_ || node.may_wait;
    if (node.extras != nullptr && node.extras->child != nullptr) return open(*node.extras->child, before);
    if (node.extras != nullptr && node.extras->event != nullptr) return add_event(node, std::move(before));
    return node.work ? add(&node.work, std::move(before)) : before;
  }

  // Returns the steps whose end is the end of all nodes; `outer` must end before any starts.
  Steps open(const GraphNodes& nodes, const Steps& outer) {
    std::vector<Steps> done_by(nodes.size());
    std::vector<bool> is_last(nodes.size(), true);
    ++depth;
    for (std::size_t place = 0; place < nodes.size(); ++place) {
      Steps before;
      for (const Dependency& edge : nodes[place].edges) {
        const std::size_t earlier = edge.node.value() - 1;
        merge(before, done_by[earlier]);
        is_last[earlier] = false;
      }
      if (nodes[place].edges.empty()) before = outer;
      if (depth == 1) outer_node = static_cast<std::uint32_t>(place + 1);
      done_by[place] = add_node(nodes[place], std::move(before));
    }
    --depth;
    Steps all = nodes.size() == 0 ? outer : Steps{};
    for (std::size_t place = 0; place < nodes.size(); ++place) {
      if (is_last[place]) merge(all, done_by[place]);
    }
    return all;
  }
};

GraphPlan::GraphPlan(std::shared_ptr<HostShared> shared, std::shared_ptr<ReplayPool> pool,
                     std::shared_ptr<const GraphNodes> nodes, InstantiateOptions::Parallel parallel)
    : shared_(std::move(shared)), pool_(std::move(pool)), nodes_(std::move(nodes)), parallel_(parallel) {
  Flattener{*this}.open(*nodes_, {});
  choose_width();
}

// Steps of equal depth could run concurrently; accurate enough to choose the number of threads.
void GraphPlan::choose_width() {
  std::vector<std::size_t> depth(steps_.size(), 0);
  std::vector<std::size_t> at_depth(steps_.size() + 1, 0);
  for (std::size_t step = 0; step < steps_.size(); ++step) {
    for (const std::uint32_t earlier : before_[step]) depth[step] = std::max(depth[step], depth[earlier] + 1);
    width_ = std::max(width_, ++at_depth[depth[step]]);
  }
}

std::unique_ptr<LaunchPoints> GraphPlan::prepare() const {
  if (events_.empty()) return nullptr;
  auto launch = std::make_unique<LaunchPoints>();
  for (const auto& node : events_) {
    std::shared_ptr<TimeStamp> stamp;
    if (node->records) {
      Point point{std::make_shared<Timeline>(), 1};
      stamp = node->event->make_stamp();
      node->event->set_point(point, stamp);
      launch->points.push_back(std::move(point));
    } else {
      launch->points.push_back(node->event->point());
    }
    launch->stamps.push_back(std::move(stamp));
  }
  return launch;
}

void GraphPlan::run_event_node(std::size_t index) {
  const Point& point = current_->points[index];
  if (events_[index]->records) {
    if (const auto& stamp = current_->stamps[index]) stamp->store(shared_->now().count());
    point.timeline->advance(1);
    return;
  }
  if (point.timeline == nullptr) return;
  shared_->wait_for(point, kForever, [] { return std::string("an event that a graph waits for"); });
  if (const auto error = point.failure()) std::rethrow_exception(error);
}

void GraphPlan::give_up(LaunchPoints* points, const std::exception_ptr& error) const {
  if (points == nullptr) return;
  for (std::size_t i = 0; i < events_.size(); ++i) {
    const Point& point = points->points[i];
    if (!events_[i]->records || point.reached()) continue;
    if (const auto& stamp = points->stamps[i]) stamp->store(shared_->now().count());
    point.timeline->fail(1, error);
    point.timeline->advance(1);
  }
}

void GraphPlan::replay(LaunchPoints* points, RunningNode number) {
  const ReplayScope scope(number);
  current_ = points;
  number_ = number;
  try {
    const bool can_help = width_ > 1 && pool_ != nullptr;
    if (shared_->scheduler() != nullptr) {
      replay_seeded();
    } else if (can_help && (parallel_ == InstantiateOptions::Parallel::kAlways || pays_in_parallel_)) {
      pool_->run(*this, width_);
    } else if (can_help && parallel_ == InstantiateOptions::Parallel::kAuto && !may_wait_ && replays_ == 1) {
      replay_measured();  // the second replay: cold caches slow down the first
    } else {
      replay_serial();
    }
    ++replays_;
  } catch (...) {
    current_ = nullptr;
    throw;
  }
  current_ = nullptr;
}

void GraphPlan::replay_serial() {
  for (std::size_t step = 0; step < steps_.size(); ++step) run_step(step);
}

void GraphPlan::replay_measured() {
  std::vector<nanoseconds> end(steps_.size());  // end of each step if every step had its own thread
  nanoseconds total{0};
  nanoseconds longest{0};
  for (std::size_t step = 0; step < steps_.size(); ++step) {
    const nanoseconds start = shared_->now();
    run_step(step);
    const nanoseconds took = shared_->now() - start;
    for (const std::uint32_t earlier : before_[step]) end[step] = std::max(end[step], end[earlier]);
    end[step] += took;
    total += took;
    longest = std::max(longest, end[step]);
  }
  const auto threads = static_cast<std::int64_t>(std::min<std::size_t>(width_, pool_->max_threads()));
  const nanoseconds parallel = std::max(longest, total / threads);
  const nanoseconds cost = kHandOver * threads + kPerStep * static_cast<std::int64_t>(steps_.size());
  pays_in_parallel_ = total - parallel > 2 * cost;
}

// One thread, but any order that the edges allow, chosen by the seed; others may run between two steps.
void GraphPlan::replay_seeded() {
  std::vector<std::size_t> missing(steps_.size());
  Steps ready;
  for (std::uint32_t step = 0; step < steps_.size(); ++step) {
    missing[step] = before_[step].size();
    if (missing[step] == 0) ready.push_back(step);
  }
  while (!ready.empty()) {
    const std::size_t at = ready.size() == 1 ? 0 : shared_->scheduler()->pick(ready.size());
    const std::uint32_t step = ready[at];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
    run_step(step);
    for (const std::uint32_t later : after_[step]) {
      if (--missing[later] == 0) ready.push_back(later);
    }
    shared_->yield();
  }
}

}  // namespace tessera::device::host::detail
