#include "tessera/device/event.h"

#include "tessera/base/error.h"
#include "tessera/device/detail/state.h"

namespace tessera::device {
namespace {

EventState& state_of(const Event& event) {
  TESSERA_CHECK(event.state() != nullptr, "Event must not be empty; create one with Device::create_event");
  event.state()->device->owner.check("event");
  return *event.state();
}

// The point that a host call queries. Points inside a capture exist only in the graph.
struct Asked {
  bool is_recorded;
  StreamId stream;
  Tick tick;
};

Asked asked_point(EventState& event, const char* call) {
  const std::lock_guard lock(event.mutex);
  TESSERA_CHECK(event.capture == CaptureId{}, call,
                ": this event was last recorded inside a capture, where nothing runs; ", call,
                " after the graph is launched, on an event recorded outside the capture or with EventUse::kExternal");
  return {event.is_recorded || event.is_wrapped, event.stream, event.tick};
}

void note_completed(EventState& event, const Asked& point) {
  if (point.tick == Tick{}) return;
  const std::lock_guard lock(event.device->mutex);
  event.device->slots[point.stream.value()].raise_completed(point.tick);
}

}  // namespace

Event Event::wrap(const Device& device, void* native, EventOptions options) {
  TESSERA_CHECK(device.state() != nullptr, "Event::wrap: Device must not be empty");
  TESSERA_CHECK(native != nullptr, "Event::wrap: native event must not be null");
  device.state()->owner.check("device");
  DeviceState& state = *device.state();
  {
    const std::lock_guard lock(state.mutex);
    const auto it = state.events.find(native);
    if (it != state.events.end()) {
      if (auto known = it->second.lock()) return Event(std::move(known));
    }
  }
  return Event(state.add_event(state.backend->wrap_event(native, options), options.timing, true));
}

bool Event::query() const {
  EventState& event = state_of(*this);
  const Asked point = asked_point(event, "Event::query");
  if (!point.is_recorded) return true;
  event.device->faults.pass(DriverCall::kQuery);
  const bool reached = event.backend->query();
  if (reached) {
    note_completed(event, point);
    event.device->check_work(false);
  }
  return reached;
}

void Event::synchronize(std::chrono::nanoseconds timeout) const {
  EventState& event = state_of(*this);
  const Asked point = asked_point(event, "Event::synchronize");
  if (!point.is_recorded) return;
  event.device->faults.pass(DriverCall::kSynchronize);
  TESSERA_CHECK_AS(TimeoutError, event.backend->synchronize(timeout), "event recorded on stream slot ", point.stream,
                   " of device ", event.device->name, " was not reached within ", timeout);
  note_completed(event, point);
  event.device->check_work(false);
}

std::chrono::nanoseconds Event::elapsed(const Event& start, const Event& end) {
  EventState& from = state_of(start);
  EventState& to = state_of(end);
  TESSERA_CHECK(from.device == to.device, "Event::elapsed: the events must be of one device, got ", from.device->name,
                " and ", to.device->name);
  TESSERA_CHECK(from.timing && to.timing, "Event::elapsed: create both events with EventOptions{.timing = true}");
  TESSERA_CHECK(asked_point(from, "Event::elapsed").is_recorded && asked_point(to, "Event::elapsed").is_recorded,
                "Event::elapsed: both events must have been recorded");
  TESSERA_CHECK(start.query() && end.query(), "Event::elapsed: an event has not been reached yet; synchronize first");
  return to.backend->since(*from.backend);
}

VectorClock Event::clock() const {
  EventState& event = state_of(*this);
  const std::lock_guard lock(event.mutex);
  return event.clock;
}

std::pair<StreamId, Tick> Event::point() const {
  EventState& event = state_of(*this);
  const std::lock_guard lock(event.mutex);
  return {event.stream, event.tick};
}

void* Event::native() const { return state_of(*this).native; }

}  // namespace tessera::device
