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

/// How an event is made.
struct EventOptions {
  bool timing = false;  ///< can be asked for the time between two; costs a little more to record
};

/// Waits without limit unless told otherwise.
inline constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

/// A point in a stream. A shared handle; recording again moves the point, and waits made before keep the old one. An
/// event never recorded is complete. Thread-safe.
class TESSERA_API Event {
 public:
  /// No event.
  Event() = default;
  /// Made by Device::create_event.
  explicit Event(std::shared_ptr<EventState> state) : state_(std::move(state)) {}
  /// An event made elsewhere (a CUevent, or another Event's native()); it is not destroyed with the handle. A foreign
  /// record is unknown to the clocks: until recorded through a Stream of ours, waiting on it orders but covers nothing.
  static Event wrap(const Device& device, void* native, EventOptions options = {});
  /// Whether there is an event.
  explicit operator bool() const { return state_ != nullptr; }

  /// Whether the latest recorded point has been reached. Throws what was parked on its stream before that point.
  [[nodiscard]] bool query() const;
  /// Waits on the host for the latest recorded point; throws what was parked before it, or TimeoutError.
  void synchronize(std::chrono::nanoseconds timeout = kForever) const;
  /// Time between two recorded and reached points of events made with timing.
  [[nodiscard]] static std::chrono::nanoseconds elapsed(const Event& start, const Event& end);

  /// What the latest recorded point is ordered after; a copy.
  [[nodiscard]] VectorClock clock() const;
  /// The stream and tick of the latest record; tick 0 before the first.
  [[nodiscard]] std::pair<StreamId, Tick> point() const;
  /// The driver's object: a CUevent; on the host an opaque pointer that wrap() takes.
  [[nodiscard]] void* native() const;
  /// Lets go of this handle.
  void reset() { state_.reset(); }
  /// The shared state.
  [[nodiscard]] const std::shared_ptr<EventState>& state() const { return state_; }

 private:
  std::shared_ptr<EventState> state_;
};

}  // namespace tessera::device
