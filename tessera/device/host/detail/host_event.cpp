#include "tessera/device/host/detail/host_event.h"

#include "tessera/device/host/detail/capture.h"

namespace tessera::device::host::detail {

HostEvent& HostEvent::from_native(void* native) {
  auto* event = static_cast<HostEvent*>(native);
  TESSERA_CHECK(event != nullptr && event->magic_ == kMagic, "not an event of a host device: ", native);
  return *event;
}

bool HostEvent::query() {
  shared_->check_caller();
  const Point latest = point();
  if (!latest.reached()) return false;
  if (const auto error = latest.failure()) std::rethrow_exception(error);
  return true;
}

bool HostEvent::synchronize(std::chrono::nanoseconds timeout) {
  shared_->check_caller();
  const Point latest = point();
  if (latest.timeline == nullptr) return true;
  if (!shared_->wait_for(latest, timeout, [] { return std::string("an event, on the host"); })) return false;
  if (const auto error = latest.failure()) std::rethrow_exception(error);
  return true;
}

std::chrono::nanoseconds HostEvent::since(EventBackend& start) {
  auto& first = dynamic_cast<HostEvent&>(start);
  TESSERA_CHECK(timing_ && first.timing_, "elapsed: both events must be created with EventOptions::timing; the ",
                timing_ ? "start" : "end", " was not");
  const auto time_of = [](const HostEvent& event, const char* which) {
    const std::lock_guard lock(event.mutex_);
    TESSERA_CHECK(event.stamp_ != nullptr, "elapsed: the ", which, " event was never recorded");
    const std::int64_t time = event.stamp_->load();
    TESSERA_CHECK(time >= 0, "elapsed: the ", which, " event has not been reached; synchronize it first");
    return std::chrono::nanoseconds(time);
  };
  return time_of(*this, "end") - time_of(first, "start");
}

std::shared_ptr<TimeStamp> HostEvent::make_stamp() const { return timing_ ? std::make_shared<TimeStamp>(-1) : nullptr; }

void HostEvent::set_point(Point point, std::shared_ptr<TimeStamp> stamp) {
  const std::lock_guard lock(mutex_);
  point_.timeline.swap(point.timeline);
  point_.sequence = point.sequence;
  stamp_ = std::move(stamp);
  if (captured_.capture) captured_ = {};
}

Point HostEvent::point() const {
  const std::lock_guard lock(mutex_);
  return point_;
}

void HostEvent::set_captured(CapturedPoint place) {
  const std::lock_guard lock(mutex_);
  captured_ = std::move(place);
}

CapturedPoint HostEvent::captured() const {
  const std::lock_guard lock(mutex_);
  return captured_.capture && captured_.capture->is_active() ? captured_ : CapturedPoint{};
}

}  // namespace tessera::device::host::detail
