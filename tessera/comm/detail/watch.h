// The one thread of a process that looks at things by itself: at what devices tell of their operations in memory, which
// the host must take in even while all its threads wait or do other things, and at the ranks and groups of the process
// (tessera/watch). It sleeps while there is nothing to see and ends before the process does.
#pragma once

#include <chrono>
#include <memory>

namespace tessera::comm::detail {

/// How often it looks, unless told otherwise.
inline constexpr std::chrono::milliseconds kWatchPeriod{20};

/// What there is to look at.
class Watched {
 public:
  virtual ~Watched() = default;
  /// Takes in what has happened, without waiting. Whether there is more to come. One thread at a time calls it.
  virtual bool look() = 0;
  /// How often; the same at all times.
  [[nodiscard]] virtual std::chrono::milliseconds period() const { return kWatchPeriod; }
};

/// Has it looked at until there is nothing more to come; to be asked for again when there is. Does not keep it: the
/// last to let go of it may be the watching thread.
void watch(const std::shared_ptr<Watched>& watched);
/// Has all that is watched looked at now.
void look_now();
/// Whether this is the watching thread, which must not wait for itself.
bool is_watching_thread();

}  // namespace tessera::comm::detail
