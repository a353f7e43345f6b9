// The polling thread of a process. It polls the state that devices write to memory for their operations, even while all
// other host threads are busy, and the ranks and groups of the process (tessera/watch). It sleeps while there is
// nothing to poll, and ends before the process does. Internal to the library. All functions are thread-safe.
#pragma once

#include <chrono>
#include <memory>

namespace tessera::comm::detail {

/// Default polling period.
inline constexpr std::chrono::milliseconds kWatchPeriod{20};

/// An object that is polled.
class PolledObject {
 public:
  virtual ~PolledObject() = default;
  /// Processes new events without waiting. Returns true if more are expected. Called by one thread at a time.
  virtual bool look() = 0;
  /// Returns the polling period, which must be constant.
  [[nodiscard]] virtual std::chrono::milliseconds period() const { return kWatchPeriod; }
};

/// Polls the object until look() returns false; call it again when more events are expected. Holds a weak reference,
/// but the polling thread may be the last to release the object.
void watch(const std::shared_ptr<PolledObject>& watched);
/// Polls all watched objects now.
void look_now();
/// Returns true on the polling thread, which must not wait for itself.
bool is_watching_thread();

}  // namespace tessera::comm::detail
