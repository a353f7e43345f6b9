// Events on streams, and captures: all operations that order one stream after another.
#include <algorithm>
#include <exception>
#include <set>

#include "tessera/base/error.h"
#include "tessera/device/detail/state.h"
#include "tessera/device/detail/stream_checks.h"
#include "tessera/device/stream.h"

namespace tessera::device {

using detail::stream_state;

namespace {

EventState& event_of(const Event& event, const StreamState& stream, const char* call) {
  TESSERA_CHECK(event.state() != nullptr, call, " on ", stream.name, ": Event must not be empty");
  TESSERA_CHECK(event.state()->device.get() == stream.device, call, " on ", stream.name,
                ": the event must be of device ", stream.device->name, ", got ", event.state()->device->name,
                "; synchronize the event on the host instead");
  return *event.state();
}

// Checks a wait against the capture rules. Returns the capture begun by Tessera that the stream joins by it, or null.
std::shared_ptr<CaptureState> check_wait(StreamState& stream, EventState& event) {
  const CaptureId mine = stream.capture_id();
  if (event.capture == CaptureId{}) {
    TESSERA_CHECK(mine == CaptureId{}, "wait on ", stream.name,
                  ", which is capturing, for an event recorded outside the capture: a replay could not wait for it; "
                  "record the event inside the capture, or wait with EventUse::kExternal");
    return nullptr;
  }
  if (mine == event.capture) [[likely]]
    return nullptr;
  auto capture = stream.device->find_capture(event.capture);
  TESSERA_CHECK(capture != nullptr || event.is_foreign_capture, "wait on ", stream.name,
                " for an event recorded in a capture that has ended: that point exists only in the graph; record the "
                "event again");
  TESSERA_CHECK(mine == CaptureId{}, "wait on ", stream.name, ", which is in capture ", mine,
                ", for an event of capture ", event.capture, ": two captures cannot be joined; end one first");
  return capture;
}

void note_record(StreamState& stream, EventState& event, Tick tick) {
  event.is_recorded = true;
  event.capture = {};
  event.stream = stream.id();
  event.tick = tick;
  event.clock = stream.clock;
}

}  // namespace

void Stream::record(const Event& event, EventUse use) const {
  StreamState& stream = stream_state(*this);
  EventState& at = event_of(event, stream, "record");
  {
    const std::lock_guard lock(stream.mutex);
    const std::lock_guard event_lock(at.mutex);
    stream.device->faults.pass(DriverCall::kRecord);
    const CaptureId capture = stream.capture_id();
    if (capture == CaptureId{}) {
      // Takes the tick first, so that it covers foreign launches until the driver call too.
      const Tick tick = stream.take_tick();
      stream.backend->record(at.backend, tick, EventUse::kEdge);
      note_record(stream, at, tick);
    } else if (use == EventUse::kExternal) {
      stream.backend->record(at.backend, {}, EventUse::kExternal);
      const std::lock_guard device_lock(stream.device->mutex);
      if (stream.capture != nullptr) stream.capture->external_records.push_back(event.state());
    } else {
      stream.backend->record(at.backend, {}, EventUse::kEdge);
      at.is_recorded = true;
      at.capture = capture;
      at.is_foreign_capture = stream.capture == nullptr;
      at.tick = {};
      at.clock.clear();
    }
  }
  stream.backend->drain();
}

void Stream::wait(const Event& event, EventUse use) const {
  StreamState& stream = stream_state(*this);
  EventState& at = event_of(event, stream, "wait");
  {
    const std::lock_guard lock(stream.mutex);
    const std::lock_guard event_lock(at.mutex);
    if (use == EventUse::kExternal && stream.is_capturing()) {
      TESSERA_CHECK(at.capture == CaptureId{}, "external wait on ", stream.name,
                    ": the event was last recorded inside a capture; use EventUse::kEdge for it");
      stream.device->faults.pass(DriverCall::kWait);
      stream.backend->wait(at.backend, EventUse::kExternal);
    } else if (at.is_recorded || at.is_wrapped) {
      std::shared_ptr<CaptureState> joined;
      if (!(at.is_wrapped && !at.is_recorded)) joined = check_wait(stream, at);  // the driver knows foreign records
      stream.device->faults.pass(DriverCall::kWait);
      stream.backend->wait(at.backend, EventUse::kEdge);
      if (ProfileWindow::is_open() && !stream.is_capturing() && joined == nullptr) stream.log.note_wait(stream);
      stream.clock.merge(at.clock);
      if (at.capture != CaptureId{} && at.is_foreign_capture) {
        stream.is_foreign = true;
        stream.slot->set_hazard(StreamSlot::kForeign, true);
      }
      if (joined != nullptr) {
        const std::lock_guard device_lock(stream.device->mutex);
        stream.capture = joined;
        stream.slot->set_capture(joined->id);
        joined->members.push_back(state_);
      }
    }
  }
  stream.backend->drain();
}

void Stream::note_wait(const Event& event) const {
  StreamState& stream = stream_state(*this);
  EventState& at = event_of(event, stream, "note_wait");
  const std::lock_guard lock(stream.mutex);
  const std::lock_guard event_lock(at.mutex);
  stream.clock.merge(at.clock);
}

void Stream::begin_capture() const {
  StreamState& stream = stream_state(*this);
  const std::lock_guard lock(stream.mutex);
  TESSERA_CHECK(!stream.is_capturing(), "begin_capture: ", stream.name,
                " is already capturing; end that capture first");
  stream.device->faults.pass(DriverCall::kBeginCapture);
  stream.backend->begin_capture();
  auto capture = std::make_shared<CaptureState>();
  capture->id = stream.backend->capture_info().id;
  capture->origin = &stream;
  capture->members.push_back(state_);
  stream.capture = capture;
  stream.slot->set_capture(capture->id);
  const std::lock_guard device_lock(stream.device->mutex);
  stream.device->captures.emplace(capture->id, capture);
}

namespace {

// Returns all nodes before the next operation of `origin`, whose lock is held.
std::set<NodeId> nodes_before(StreamState& origin) {
  std::set<NodeId> seen;
  std::vector<NodeId> open;
  auto visit = [&](const Dependencies& dependencies) {
    for (const Dependency& dependency : dependencies) {
      if (seen.insert(dependency.node).second) open.push_back(dependency.node);
    }
  };
  visit(origin.backend->capture_info().dependencies);
  while (!open.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    visit(origin.backend->capture_predecessors(node));
  }
  return seen;
}

// Returns the first member with a latest node that is not in `joined`, or null. Takes the locks of the members one by
// one; must be called without locks.
std::shared_ptr<StreamState> find_unjoined(const std::vector<std::shared_ptr<StreamState>>& members,
                                           const std::set<NodeId>& joined) {
  for (const auto& member : members) {
    const std::lock_guard lock(member->mutex);
    const auto tips = member->backend->capture_info().dependencies;
    if (!std::ranges::all_of(tips, [&](const Dependency& tip) { return joined.contains(tip.node); })) return member;
  }
  return nullptr;
}

std::shared_ptr<CaptureState> capture_to_end(StreamState& stream, const char* call) {
  TESSERA_CHECK(stream.capture != nullptr, call, ": ", stream.name, " is not capturing; call begin_capture first");
  TESSERA_CHECK(stream.capture->origin == &stream, call, ": the capture of ", stream.name, " was started on ",
                stream.capture->origin->name, "; ", call, " must be called there");
  return stream.capture;
}

// Returns the streams that joined the capture, without the origin.
std::vector<std::shared_ptr<StreamState>> joined_streams(DeviceState& device, const CaptureState& capture) {
  const std::lock_guard lock(device.mutex);
  return {capture.members.begin() + 1, capture.members.end()};
}

// Removes the streams from a capture that has ended. Called without locks.
void leave_capture(DeviceState& device, const std::shared_ptr<CaptureState>& capture) {
  std::vector<std::shared_ptr<StreamState>> members;
  {
    const std::lock_guard lock(device.mutex);
    device.captures.erase(capture->id);
    members.swap(capture->members);
  }
  for (const auto& member : members) {
    const std::lock_guard lock(member->mutex);
    if (member->capture != capture) continue;
    member->capture = nullptr;
    member->dropped = {};
    member->slot->set_capture({});
  }
}

}  // namespace

Graph Stream::end_capture() const {
  StreamState& stream = stream_state(*this);
  DeviceState& device = *stream.device;
  auto graph = std::make_shared<GraphState>();
  graph->device = device.shared_from_this();
  std::shared_ptr<CaptureState> capture;
  std::vector<std::shared_ptr<StreamState>> members;
  std::set<NodeId> joined;
  {
    const std::lock_guard lock(stream.mutex);
    capture = capture_to_end(stream, "end_capture");
    members = joined_streams(device, *capture);
    if (!members.empty()) joined = nodes_before(stream);
  }
  const auto unjoined = find_unjoined(members, joined);
  TESSERA_CHECK(unjoined == nullptr, "end_capture: ", unjoined->name,
                " joined the capture and was not joined back; record an event on it, make ", stream.name,
                " wait on that and end again, or call abort_capture");
  std::exception_ptr failure;
  {
    const std::lock_guard lock(stream.mutex);
    TESSERA_CHECK(stream.capture == capture, "end_capture: another thread ended the capture of ", stream.name);
    device.faults.pass(DriverCall::kEndCapture);
    try {
      graph->backend = stream.backend->end_capture();
    } catch (...) {  // the driver has discarded the graph; the streams must not stay in it
      failure = std::current_exception();
    }
  }
  graph->external_records = capture->external_records;
  leave_capture(device, capture);
  if (failure != nullptr) std::rethrow_exception(failure);
  if (device.checker != nullptr) detail::AccessChecker::check_graph(graph->backend->nodes());
  return Graph(std::move(graph));
}

void Stream::abort_capture() const {
  StreamState& stream = stream_state(*this);
  std::shared_ptr<CaptureState> capture;
  {
    const std::lock_guard lock(stream.mutex);
    if (stream.capture == nullptr) return;
    capture = capture_to_end(stream, "abort_capture");
    stream.backend->abort_capture();
  }
  leave_capture(*stream.device, capture);
}

CaptureInfo Stream::capture_info() const {
  StreamState& stream = stream_state(*this);
  const std::lock_guard lock(stream.mutex);
  CaptureInfo info = stream.backend->capture_info();
  if (info.id == stream.dropped_in && !stream.dropped.empty()) [[unlikely]]
    info.dropped = stream.dropped;
  return info;
}

const std::atomic<std::uint64_t>* Stream::capture_changes() const {
  return stream_state(*this).backend->capture_changes();
}

Dependencies Stream::capture_predecessors(NodeId node) const {
  StreamState& stream = stream_state(*this);
  const std::lock_guard lock(stream.mutex);
  TESSERA_CHECK(stream.is_capturing(), "capture_predecessors: ", stream.name, " is not capturing");
  return stream.backend->capture_predecessors(node);
}

void Stream::set_capture_dependencies(const std::vector<NodeId>& nodes) const {
  StreamState& stream = stream_state(*this);
  const std::lock_guard lock(stream.mutex);
  TESSERA_CHECK(stream.is_capturing(), "set_capture_dependencies: ", stream.name, " is not capturing");
  const CaptureInfo before = stream.backend->capture_info();
  stream.backend->set_capture_dependencies(nodes);
  // A foreign capture ends without notice, so the capture of `dropped` is stored with it.
  if (stream.dropped_in != before.id) stream.dropped.clear();
  stream.dropped_in = before.id;
  for (const Dependency& dependency : before.dependencies) {
    const bool is_kept = std::ranges::find(nodes, dependency.node) != nodes.end();
    const bool is_noted = std::ranges::find(stream.dropped, dependency) != stream.dropped.end();
    if (!is_kept && !is_noted) stream.dropped.push_back(dependency);
  }
}

bool Stream::is_capturing() const {
  StreamState& stream = stream_state(*this);
  const std::lock_guard lock(stream.mutex);
  return stream.is_capturing();
}

}  // namespace tessera::device
