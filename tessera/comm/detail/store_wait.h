// A wait for a value of the store that does not stay silent: it looks at the store in short slices, calls the caller
// between two slices, and reports a wait that lasts (wait_notice.h).
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "tessera/comm/store/detail/wait_notice.h"
#include "tessera/comm/store/store.h"

namespace tessera::comm::detail {

/// A value of the store that a rank waits for.
struct StoreWait {
  std::string key;
  std::chrono::nanoseconds timeout;
  std::string subject;                  ///< of the log lines: "group world"
  std::string whom;                     ///< what it waits for: "rank 2 to join"
  std::function<void()> check = [] {};  ///< called every 50 ms; throws to end the wait
  NoticeDelays delays = {};             ///< of the log lines
};
/// Returns the value, or nothing if the time is up.
std::optional<std::string> wait_for_value(Store& store, const StoreWait& wait);

}  // namespace tessera::comm::detail
