// Waits for a value of the store. The wait polls the store in short intervals, calls the caller between them, and logs
// waits that last (wait_notice.h).
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "tessera/comm/store/store.h"
#include "tessera/comm/store/wait_notice.h"

namespace tessera::comm::detail {

/// A value of the store that a rank waits for.
struct StoreWait {
  std::string key;
  std::chrono::nanoseconds timeout;
  std::string subject;                  ///< subject of the log lines: "group world"
  std::string whom;                     ///< object of the wait: "rank 2 to join"
  std::function<void()> check = [] {};  ///< called every 50 ms; throws to end the wait
  NoticeDelays delays = {};             ///< delays of the log lines
};
/// Returns the value, or nullopt after the timeout.
std::optional<std::string> wait_for_value(Store& store, const StoreWait& wait);

}  // namespace tessera::comm::detail
