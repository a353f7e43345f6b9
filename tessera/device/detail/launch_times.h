// When launches of a stream begin and end on a device that runs them by itself: a pair of events with timing around
// each, read when they have been reached. The device's clock is tied to the host's by an event on a stream of its own,
// where nothing else is waited for.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "tessera/base/probe/recorder.h"
#include "tessera/device/backend.h"

namespace tessera::device {
struct StreamState;
}

namespace tessera::device::detail {

/// See the head of this file. Of one stream, used under its lock.
class LaunchTimes {
 public:
  /// `device`: its name in the record.
  explicit LaunchTimes(probe::StringId device) : device_(device) {}

  /// Launch `number` is about to be put on the stream.
  void begin(StreamState& stream, std::uint64_t number);
  /// It was.
  void end(StreamState& stream);
  /// Records all that are known to have ended, and lets go of the rest where the device has failed.
  void collect(const StreamState& stream) noexcept;

 private:
  using Event = std::shared_ptr<EventBackend>;
  struct Timed {
    std::uint64_t number = 0;
    Event begun = {};
    Event ended = {};
  };

  void tie_clocks(const StreamState& stream);
  Event take_event(const StreamState& stream);

  const probe::StringId device_;
  Event tied_;  // reached at tied_at_, of the host's clock; null: not yet
  probe::Moment tied_at_ = {};
  Timed current_;
  std::deque<Timed> pending_;
  std::vector<Event> spare_;
};

}  // namespace tessera::device::detail
