#include "tessera/device/detail/launch_times.h"

#include <chrono>
#include <utility>

#include "tessera/base/log.h"
#include "tessera/device/detail/state.h"
#include "tessera/device/launch_records.h"

namespace tessera::device::detail {
namespace {

constexpr std::size_t kMaxPending = 64;  // beyond this, ended launches are recorded
constexpr std::chrono::milliseconds kMaxWait{100};

}  // namespace

// Takes the middle of the time that the event took, which is a few microseconds.
void LaunchTimes::tie_clocks(const StreamState& stream) {
  const auto clock = stream.device->backend->create_stream({.name = "clock"}, false);
  const Event event = stream.device->backend->create_event({.timing = true});
  const std::uint64_t before = probe::recorder().now().value();
  clock->record(event, Tick{}, EventUse::kEdge);
  if (!event->synchronize(kMaxWait)) return;
  const std::uint64_t after = probe::recorder().now().value();
  tied_at_ = probe::Moment(before + (after - before) / 2);
  tied_ = event;
}

LaunchTimes::Event LaunchTimes::take_event(const StreamState& stream) {
  if (spare_.empty()) return stream.device->backend->create_event({.timing = true});
  Event event = std::move(spare_.back());
  spare_.pop_back();
  return event;
}

void LaunchTimes::begin(StreamState& stream, std::uint64_t number) {
  if (pending_.size() >= kMaxPending) collect(stream);
  if (tied_ == nullptr) tie_clocks(stream);
  current_ = {};
  if (tied_ == nullptr) return;
  current_ = {.number = number, .begun = take_event(stream), .ended = take_event(stream)};
  stream.backend->record(current_.begun, stream.slot->tick(), EventUse::kEdge);
}

void LaunchTimes::end(StreamState& stream) {
  if (current_.begun == nullptr) return;
  stream.backend->record(current_.ended, stream.slot->tick(), EventUse::kEdge);
  pending_.push_back(std::exchange(current_, {}));
}

void LaunchTimes::collect(const StreamState& stream) noexcept {
  try {
    for (; !pending_.empty() && pending_.front().ended->query(); pending_.pop_front()) {
      Timed& first = pending_.front();
      probe::record(probe::Ring::kLaunch, LaunchEndRecord{.number = first.number,
                                                          .stream = stream.id().value(),
                                                          .device = device_,
                                                          .when = tied_at_,
                                                          .begun_ns = first.begun->since(*tied_).count(),
                                                          .ended_ns = first.ended->since(*tied_).count()});
      spare_.push_back(std::move(first.begun));
      spare_.push_back(std::move(first.ended));
    }
  } catch (const std::exception& error) {
    log::debug("launch times on ", stream.name, " are lost: ", error.what());
    pending_.clear();
  }
}

}  // namespace tessera::device::detail
