#include "tessera/device/host/detail/host_stream.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/device/host/detail/host_event.h"
#include "tessera/device/host/detail/host_graph.h"
#include "tessera/device/host/detail/work.h"

namespace tessera::device::host::detail {
namespace {

// The layer above passes only kernels, events and graphs of the same device.
HostEvent& host_event(const std::shared_ptr<EventBackend>& event) { return static_cast<HostEvent&>(*event); }

}  // namespace

HostStream::HostStream(std::shared_ptr<StreamCore> core) : core_(std::move(core)), lane_(core_->lane()) {
  core_->add_user();
}

HostStream::~HostStream() { core_->remove_user(); }

HostStream::Lane HostStream::capturing() {
  core_->shared().check_caller();
  if (!lane_.may_capture.load()) [[likely]]
    return {};
  Lane lane(lane_.lock);
  if (lane_.capture != nullptr && lane_.capture->is_active()) return lane;
  lane_.leave();  // the stream that began the capture has ended or discarded it
  return {};
}

HostStream::Lane HostStream::check_capturing(const char* call) {
  Lane lane = capturing();
  TESSERA_CHECK(lane.owns_lock(), call, ": stream '", core_->name(), "' is not capturing");
  return lane;
}

void HostStream::add_node(NewNode&& made) {
  const NodeId id = lane_.capture->add([&](GraphNode& node) {
    node.kind = made.kind;
    node.may_wait = made.may_wait;
    node.label = made.info.label;
    node.edges.assign(lane_.dependencies);
    for (std::size_t i = 0; made.overlap && i < node.edges.size(); ++i) {
      if (node.edges[i].node == lane_.last_launch) node.edges[i].kind = EdgeKind::kWeak;
    }
    if (made.info.accesses) {
      node.has_declared_accesses = true;
      made.extras.accesses.assign(made.info.accesses->begin(), made.info.accesses->end());
    }
    const bool has_extras = made.extras.event || made.extras.child || !made.extras.accesses.empty();
    if (has_extras) node.extras = std::make_unique<NodeExtras>(std::move(made.extras));
    node.work = std::move(made.work);
  });
  lane_.dependencies.clear();
  lane_.dependencies.push_back({id});
  lane_.note_change();
  if (made.kind == NodeKind::kKernel || made.kind == NodeKind::kHost) lane_.last_launch = id;
}

void HostStream::do_work(NodeKind kind, HostFunction&& work, const LaunchInfo& info, bool overlap) {
  const Lane lane = capturing();
  if (!lane.owns_lock()) [[likely]] {
    core_->enqueue(std::move(work));
    return;
  }
  add_node({.kind = kind, .info = info, .work = std::move(work), .overlap = overlap});
}

void HostStream::launch(const std::shared_ptr<KernelBackend>& kernel, const LaunchConfig& config,
                        const KernelArgs& args, const LaunchInfo& info, bool overlap) {
  const auto& own = static_cast<const HostKernel&>(*kernel);
  do_work(NodeKind::kKernel, HostKernelCall(own.function(), config, args), info, overlap);
}

void HostStream::run(HostFunction&& body, const LaunchInfo& info, bool overlap) {
  TESSERA_CHECK(static_cast<bool>(body), "run '", info.label, "': function must not be empty");
  do_work(NodeKind::kHost, std::move(body), info, overlap);
}

void HostStream::copy(void* to, const void* from, std::size_t nbytes, const LaunchInfo& info) {
  do_work(
      NodeKind::kCopy,
      [=] {
        if (nbytes > 0) std::memmove(to, from, nbytes);
      },
      info);
}

void HostStream::copy_2d(const Copy2d& rows, const LaunchInfo& info) {
  do_work(
      NodeKind::kCopy, [rows] { copy_rows(rows); }, info);
}

void HostStream::fill(void* to, std::uint32_t pattern, std::size_t item_nbytes, std::size_t count,
                      const LaunchInfo& info) {
  do_work(
      NodeKind::kFill, [=] { fill_items(to, pattern, item_nbytes, count); }, info);
}

void HostStream::write_value(std::uint64_t* to, std::uint64_t value) {
  do_work(NodeKind::kMemoryValue, [shared = &core_->shared(), to, value] { write_word(*shared, to, value); },
          {.label = "write_value"});
}

void HostStream::wait_value(const std::uint64_t* from, std::uint64_t value, Compare compare) {
  const Lane lane = capturing();
  if (!lane.owns_lock()) {
    core_->enqueue(WaitValueOp{from, value, compare});
    return;
  }
  add_node(
      {.kind = NodeKind::kMemoryValue,
       .info = {.label = "wait_value"},
       .work = [shared = &core_->shared(), from, value, compare] { wait_for_value(*shared, from, value, compare); },
       .may_wait = true});
}

std::shared_ptr<HoldBackend> HostStream::hold(std::chrono::nanoseconds timeout) {
  core_->shared().check_caller();
  auto hold = std::make_shared<HostHold>(timeout);
  core_->enqueue(HoldOp{hold});
  return hold;
}

void HostStream::record(const std::shared_ptr<EventBackend>& event, Tick tick, EventUse use) {
  HostEvent& own = host_event(event);
  const Lane lane = capturing();
  if (!lane.owns_lock()) {
    auto stamp = own.make_stamp();
    const std::uint64_t sequence = core_->enqueue(RecordOp{tick, stamp});
    own.set_point({core_->timeline(), sequence}, std::move(stamp));
  } else if (use == EventUse::kEdge) {
    own.set_captured({lane_.capture, lane_.dependencies});
  } else {
    add_node(
        {.kind = NodeKind::kEventRecord, .info = {.label = "record"}, .extras = {.event = own.shared_from_this()}});
  }
}

void HostStream::wait(const std::shared_ptr<EventBackend>& event, EventUse use) {
  HostEvent& own = host_event(event);
  Lane lane = capturing();
  if (use == EventUse::kExternal && lane.owns_lock()) {
    return add_node({.kind = NodeKind::kEventWait,
                     .info = {.label = "wait"},
                     .extras = {.event = own.shared_from_this()},
                     .may_wait = true});
  }
  CapturedPoint place = own.captured();
  if (lane.owns_lock() || place.capture != nullptr) {
    if (!lane.owns_lock()) lane = Lane(lane_.lock);
    return join_capture(std::move(place), own);
  }
  Point point = own.point();
  if (point.reached() && point.failure() == nullptr) return;
  core_->enqueue(WaitOp{std::move(point)});
}

void HostStream::join_capture(CapturedPoint place, const HostEvent& event) {
  if (place.capture == nullptr) {
    TESSERA_CHECK(event.point().timeline == nullptr, "wait: stream '", core_->name(),
                  "' is capturing and the event was recorded outside; wait with EventUse::kExternal");
    return;
  }
  if (lane_.capture == nullptr) return lane_.enter(std::move(place.capture), std::move(place.dependencies));
  TESSERA_CHECK(lane_.capture == place.capture, "wait: stream '", core_->name(), "' takes part in capture ",
                lane_.capture->id(), " and the event was recorded in capture ", place.capture->id());
  for (const Dependency& dependency : place.dependencies) {
    const bool is_known =
        std::find(lane_.dependencies.begin(), lane_.dependencies.end(), dependency) != lane_.dependencies.end();
    if (!is_known) lane_.dependencies.push_back(dependency);
  }
  lane_.note_change();
}

void HostStream::launch_graph(const std::shared_ptr<GraphExecBackend>& exec) {
  auto& own = static_cast<HostGraphExec&>(*exec);
  const Lane lane = capturing();
  if (!lane.owns_lock()) return own.launch(*core_);
  add_node({.kind = NodeKind::kGraph, .info = {.label = "graph"}, .extras = {.child = own.work()}});
}

void HostStream::publish(Tick tick) { core_->enqueue(RecordOp{tick, nullptr}); }

void HostStream::begin_capture() {
  TESSERA_CHECK(!capturing().owns_lock(), "begin_capture: stream '", core_->name(), "' is already capturing");
  const Lane lane(lane_.lock);
  lane_.enter(std::make_shared<HostCapture>(), {});
}

std::unique_ptr<GraphBackend> HostStream::end_capture() {
  const Lane lane = check_capturing("end_capture");
  auto nodes = std::make_shared<const GraphNodes>(lane_.capture->end());
  lane_.leave();
  return std::make_unique<HostGraph>(std::move(nodes));
}

void HostStream::abort_capture() {
  GraphNodes dropped;  // destroyed after the lock is released: captures of nodes may do anything in their destructors
  const Lane lane = capturing();
  if (!lane.owns_lock()) return;
  dropped = lane_.capture->end();
  lane_.leave();
}

CaptureInfo HostStream::capture_info() {
  const Lane lane = capturing();
  if (!lane.owns_lock()) return {};
  return {lane_.capture->id(), lane_.dependencies};
}

Dependencies HostStream::capture_predecessors(NodeId node) {
  const Lane lane = check_capturing("capture_predecessors");
  return lane_.capture->predecessors(node);
}

void HostStream::set_capture_dependencies(std::span<const NodeId> nodes) {
  const Lane lane = check_capturing("set_capture_dependencies");
  lane_.capture->check_nodes(nodes);
  lane_.dependencies.clear();
  for (const NodeId node : nodes) lane_.dependencies.push_back({node});
  lane_.note_change();
}

bool HostStream::is_idle() {
  core_->shared().check_caller();
  return core_->is_idle();
}

bool HostStream::synchronize(std::chrono::nanoseconds timeout) {
  core_->shared().check_caller();
  return core_->synchronize(timeout);
}

}  // namespace tessera::device::host::detail
