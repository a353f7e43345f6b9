// Somebody who looks at what devices do by themselves: a device that runs operations tells of them in memory, and the
// host must take that in even while all its threads wait or do other things. One thread for the process, which sleeps
// while there is nothing to see and ends before the process does.
#pragma once

#include <chrono>
#include <memory>

namespace tessera::comm::detail {

/// What there is to look at.
class Watched {
 public:
  virtual ~Watched() = default;
  /// Takes in what has happened, without waiting. Whether there is more to come. One thread at a time calls it.
  virtual bool look() = 0;
};

/// How often it looks.
inline constexpr std::chrono::milliseconds kWatchPeriod{20};

/// Has it looked at until there is nothing more to come; to be asked for again when there is. Does not keep it: the
/// last to let go of it may be the watching thread.
void watch(const std::shared_ptr<Watched>& watched);

}  // namespace tessera::comm::detail
