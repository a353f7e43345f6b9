#include "tessera/device/host/detail/host_stream.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/base/mutant.h"
#include "tessera/device/host/detail/host_event.h"
#include "tessera/device/host/detail/host_graph.h"
#include "tessera/device/host/detail/work.h"

namespace tessera::device::host::detail {
namespace {

HostEvent& host_event(const std::shared_ptr<EventBackend>& event) {
  auto* own = dynamic_cast<HostEvent*>(event.get());
  TESSERA_CHECK(own != nullptr, "the event belongs to another kind of device");
  return *own;
}

}  // namespace

HostStream::HostStream(std::shared_ptr<StreamCore> core) : core_(std::move(core)), lane_(core_->lane()) {
  core_->add_user();
}

HostStream::~HostStream() { core_->remove_user(); }

bool HostStream::is_capturing() {
  core_->shared().check_caller();
  if (!lane_.may_capture.load()) [[likely]]
    return false;
  const std::lock_guard lock(lane_.mutex);
  if (lane_.capture != nullptr && lane_.capture->is_active()) return true;
  lane_.leave();  // it was ended or dropped on the stream that began it
  return false;
}

void HostStream::check_capturing(const char* call) {
  TESSERA_CHECK(is_capturing(), call, ": stream '", core_->name(), "' is not capturing");
}

void HostStream::add_node(NodeKind kind, const LaunchInfo& info, GraphNode node, bool overlap) {
  const std::lock_guard lock(lane_.mutex);
  node.info.kind = kind;
  node.info.label = std::string(info.label);
  node.info.has_declared_accesses = info.accesses.has_value();
  if (info.accesses) node.info.accesses.assign(info.accesses->begin(), info.accesses->end());
  node.info.dependencies = lane_.dependencies;
  for (Dependency& dependency : node.info.dependencies) {
    if (overlap && dependency.node == lane_.last_launch) dependency.kind = EdgeKind::kWeak;
  }
  const NodeId id = lane_.capture->add(std::move(node));
  if (!TESSERA_MUTANT("host.capture_forgets_order")) lane_.dependencies.assign(1, {id});
  if (kind == NodeKind::kKernel || kind == NodeKind::kHost) lane_.last_launch = id;
}

void HostStream::do_work(NodeKind kind, HostFunction work, const LaunchInfo& info, bool overlap) {
  if (!is_capturing()) [[likely]] {
    core_->enqueue(std::move(work));
    return;
  }
  if (TESSERA_MUTANT("host.capture_runs_eagerly")) work();
  GraphNode node;
  node.work = std::make_shared<HostFunction>(std::move(work));
  add_node(kind, info, std::move(node), overlap);
}

void HostStream::launch(const std::shared_ptr<KernelBackend>& kernel, const LaunchConfig& config,
                        const KernelArgs& args, const LaunchInfo& info, bool overlap) {
  const auto* own = dynamic_cast<HostKernel*>(kernel.get());
  TESSERA_CHECK(own != nullptr, "launch '", info.label, "': the kernel belongs to another kind of device");
  do_work(NodeKind::kKernel, KernelCall(own->function(), config, args), info, overlap);
}

void HostStream::run(HostFunction body, const LaunchInfo& info, bool overlap) {
  TESSERA_CHECK(static_cast<bool>(body), "run '", info.label, "': the function is empty");
  if (TESSERA_MUTANT("host.inline_reorders") && core_->is_handed_over()) return body();
  do_work(NodeKind::kHost, std::move(body), info, overlap);
}

void HostStream::copy(void* to, const void* from, std::size_t nbytes, const LaunchInfo& info) {
  const std::size_t copied = TESSERA_MUTANT("host.copy_misses_last_byte") && nbytes > 0 ? nbytes - 1 : nbytes;
  do_work(
      NodeKind::kCopy,
      [=] {
        if (copied > 0) std::memmove(to, from, copied);
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
  if (!is_capturing()) {
    core_->enqueue(WaitValueOp{from, value, compare});
    return;
  }
  GraphNode node;
  node.may_wait = true;
  node.work = std::make_shared<HostFunction>(
      [shared = &core_->shared(), from, value, compare] { wait_for_value(*shared, from, value, compare); });
  add_node(NodeKind::kMemoryValue, {.label = "wait_value"}, std::move(node));
}

std::shared_ptr<HoldBackend> HostStream::hold(std::chrono::nanoseconds timeout) {
  core_->shared().check_caller();
  auto hold = std::make_shared<HostHold>(timeout);
  core_->enqueue(HoldOp{hold});
  return hold;
}

void HostStream::record(const std::shared_ptr<EventBackend>& event, Tick tick, EventUse use) {
  HostEvent& own = host_event(event);
  if (!is_capturing()) {
    auto stamp = own.make_stamp();
    std::uint64_t sequence = core_->enqueue(RecordOp{tick, stamp});
    if (TESSERA_MUTANT("host.record_early")) sequence -= std::min<std::uint64_t>(sequence, 2);
    own.set_point({core_->timeline(), sequence}, std::move(stamp));
  } else if (use == EventUse::kEdge) {
    const std::lock_guard lock(lane_.mutex);
    own.set_captured({lane_.capture, lane_.dependencies});
  } else {
    GraphNode node;
    node.event = own.shared_from_this();
    add_node(NodeKind::kEventRecord, {.label = "record"}, std::move(node));
  }
}

void HostStream::wait(const std::shared_ptr<EventBackend>& event, EventUse use) {
  HostEvent& own = host_event(event);
  const bool capturing = is_capturing();
  if (use == EventUse::kExternal && capturing) {
    GraphNode node;
    node.event = own.shared_from_this();
    node.may_wait = true;
    add_node(NodeKind::kEventWait, {.label = "wait"}, std::move(node));
    return;
  }
  if (capturing || own.captured().capture != nullptr) return join_capture(event);
  Point point = own.point();
  if (TESSERA_MUTANT("host.wait_ignored") || (point.reached() && point.failure() == nullptr)) return;
  if (TESSERA_MUTANT("host.wait_uses_latest_record")) {
    core_->enqueue(HostFunction([late = own.shared_from_this()] { late->synchronize(std::chrono::seconds(2)); }));
    return;
  }
  core_->enqueue(WaitOp{std::move(point)});
}

void HostStream::join_capture(const std::shared_ptr<EventBackend>& event) {
  CapturedPoint place = host_event(event).captured();
  if (place.capture == nullptr) {
    TESSERA_CHECK(host_event(event).point().timeline == nullptr, "wait: stream '", core_->name(),
                  "' is capturing and the event was recorded outside; wait with EventUse::kExternal");
    return;
  }
  const std::lock_guard lock(lane_.mutex);
  if (lane_.capture == nullptr) return lane_.enter(std::move(place.capture), std::move(place.dependencies));
  TESSERA_CHECK(lane_.capture == place.capture, "wait: stream '", core_->name(), "' takes part in capture ",
                lane_.capture->id(), " and the event was recorded in capture ", place.capture->id());
  if (TESSERA_MUTANT("host.join_drops_old_deps")) lane_.dependencies.clear();
  for (const Dependency& dependency : place.dependencies) {
    const bool is_known =
        std::find(lane_.dependencies.begin(), lane_.dependencies.end(), dependency) != lane_.dependencies.end();
    if (!is_known) lane_.dependencies.push_back(dependency);
  }
}

void HostStream::launch_graph(const std::shared_ptr<GraphExecBackend>& exec) {
  auto* own = dynamic_cast<HostGraphExec*>(exec.get());
  TESSERA_CHECK(own != nullptr, "launch: the graph belongs to another kind of device");
  if (!is_capturing()) return own->launch(*core_);
  GraphNode node;
  node.child = own->work();
  add_node(NodeKind::kGraph, {.label = "graph"}, std::move(node));
}

void HostStream::publish(Tick tick) {
  if (TESSERA_MUTANT("host.publish_early")) core_->show(tick);
  core_->enqueue(RecordOp{tick, nullptr});
}

void HostStream::begin_capture() {
  TESSERA_CHECK(!is_capturing(), "begin_capture: stream '", core_->name(), "' is capturing already");
  const std::lock_guard lock(lane_.mutex);
  lane_.enter(std::make_shared<Capture>(), {});
}

std::unique_ptr<GraphBackend> HostStream::end_capture() {
  const std::lock_guard lock(lane_.mutex);
  check_capturing("end_capture");
  GraphNodes nodes = lane_.capture->end();
  lane_.leave();
  return std::make_unique<HostGraph>(std::move(nodes));
}

void HostStream::abort_capture() {
  const std::lock_guard lock(lane_.mutex);
  if (!is_capturing()) return;
  static_cast<void>(lane_.capture->end());
  lane_.leave();
}

CaptureInfo HostStream::capture_info() {
  const std::lock_guard lock(lane_.mutex);
  if (!is_capturing()) return {};
  return {lane_.capture->id(), lane_.dependencies};
}

std::vector<Dependency> HostStream::capture_predecessors(NodeId node) {
  const std::lock_guard lock(lane_.mutex);
  check_capturing("capture_predecessors");
  return lane_.capture->predecessors(node);
}

void HostStream::set_capture_dependencies(std::span<const NodeId> nodes) {
  const std::lock_guard lock(lane_.mutex);
  check_capturing("set_capture_dependencies");
  lane_.capture->check_nodes(nodes);
  lane_.dependencies.clear();
  for (const NodeId node : nodes) lane_.dependencies.push_back({node});
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
