// Events: a point in a stream that other streams and the host can wait for.
#pragma once

#include <chrono>
#include <memory>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"
#include "tessera/device/clock.h"

namespace tessera::device {

class Device;
struct EventState;

/// Options of an event.
struct EventOptions {
  bool timing = false;  ///< enables elapsed(); makes recording slower
};

/// A timeout without limit.
inline constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

/// A point in a stream. Copies share the event. Recording again moves the point; earlier waits keep the old one. An
/// event that was never recorded is complete. Thread-safe.
class TESSERA_API Event {
 public:
  /// Constructs an empty handle.
  Event() = default;
  /// Constructs a handle. Called by Device::create_event.
  explicit Event(std::shared_ptr<EventState> state) : state_(std::move(state)) {}
  /// Wraps a native event (a CUevent, or native() of another Event), which is not destroyed with the handle. The clocks
  /// do not know records made outside Tessera: waiting on such an event orders work but covers nothing.
  static Event wrap(const Device& device, void* native, EventOptions options = {});
  /// Returns true if the handle refers to an event.
  explicit operator bool() const { return state_ != nullptr; }

  /// Returns true if the latest recorded point was reached. Throws an error parked on its stream before that point.
  [[nodiscard]] bool query() const;
  /// Blocks the host until the latest recorded point is reached. Throws an error parked before it, or TimeoutError.
  void synchronize(std::chrono::nanoseconds timeout = kForever) const;
  /// Returns the time between two reached points of events with timing.
  [[nodiscard]] static std::chrono::nanoseconds elapsed(const Event& start, const Event& end);

  /// Returns a copy of the clock of the latest recorded point.
  [[nodiscard]] VectorClock clock() const;
  /// Returns the stream and tick of the latest record; tick 0 before the first.
  [[nodiscard]] std::pair<StreamId, Tick> point() const;
  /// Returns the driver's object: a CUevent, or on the host an opaque pointer for wrap().
  [[nodiscard]] void* native() const;
  /// Releases this handle.
  void reset() { state_.reset(); }
  /// Returns the shared state.
  [[nodiscard]] const std::shared_ptr<EventState>& state() const { return state_; }

 private:
  std::shared_ptr<EventState> state_;
};

}  // namespace tessera::device
