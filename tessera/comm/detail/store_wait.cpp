#include "tessera/comm/detail/store_wait.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/log.h"

namespace tessera::comm::detail {

std::optional<std::string> wait_for_value(Store& store, const StoreWait& wait) {
  using Clock = WaitNotice::Clock;
  using std::chrono::nanoseconds;
  constexpr nanoseconds kLook = std::chrono::milliseconds(50);
  const auto until = Clock::now() + std::min<nanoseconds>(wait.timeout, std::chrono::hours(24));
  WaitNotice notice(Clock::now(), wait.delays);
  while (true) {
    const nanoseconds left = until - Clock::now();
    try {
      return store.get(wait.key, std::clamp(left, nanoseconds(0), kLook));
    } catch (const TimeoutError&) {
      wait.check();
      if (left <= kLook) return std::nullopt;
      if (const auto waited = notice.due(Clock::now()))
        log::info(wait.subject, ": waiting ", waited->count(), " s for ", wait.whom);
    }
  }
}

}  // namespace tessera::comm::detail
