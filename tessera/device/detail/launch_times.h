// Measures when launches of a stream start and end on an asynchronous device: a pair of timing events around each
// launch, read after they were reached. An event on a separate stream without other work relates the clock of the
// device to that of the host.
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

/// The times of one stream. Used under its lock.
class LaunchTimes {
 public:
  /// `device` is the name of the device in the record.
  explicit LaunchTimes(probe::StringId device) : device_(device) {}

  /// Called before launch `number` is enqueued.
  void begin(StreamState& stream, std::uint64_t number);
  /// Called after the launch was enqueued.
  void end(StreamState& stream);
  /// Records all launches that are known to have ended. Discards the others if the device has failed.
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
  Event tied_;  // reached at tied_at_ of the host clock; null: not yet
  probe::Moment tied_at_ = {};
  Timed current_;
  std::deque<Timed> pending_;
  std::vector<Event> spare_;
};

}  // namespace tessera::device::detail
