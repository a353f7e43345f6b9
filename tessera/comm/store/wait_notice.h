// Decides when a long wait is reported: first after 10 s, then every 30 s. The caller passes the time, so that tests
// need not sleep. Internal to the library: waits of the store, of groups and of the watchdog.
//
//   WaitNotice notice(Clock::now());
//   while (!wait_a_moment()) {
//     if (const auto waited = notice.due(Clock::now())) log::info("waiting ", waited->count(), " s for rank 2");
//   }
#pragma once

#include <chrono>
#include <optional>

namespace tessera::comm::detail {

/// Delays of the reports of a wait.
struct NoticeDelays {
  std::chrono::nanoseconds first = std::chrono::seconds(10);  ///< from the start of the wait
  std::chrono::nanoseconds next = std::chrono::seconds(30);   ///< from one report to the next
};

/// The reports of one wait. Not thread-safe.
class WaitNotice {
 public:
  using Clock = std::chrono::steady_clock;
  /// Starts a wait at `now`.
  explicit WaitNotice(Clock::time_point now, NoticeDelays delays = {})
      : began_(now), next_(now + delays.first), delays_(delays) {}
  /// Returns the duration of the wait in whole seconds if a report is due, otherwise nullopt.
  std::optional<std::chrono::seconds> due(Clock::time_point now) {
    if (now < next_) return std::nullopt;
    next_ = now + delays_.next;
    return std::chrono::duration_cast<std::chrono::seconds>(now - began_);
  }
  /// Returns the time of the next report.
  [[nodiscard]] Clock::time_point next() const { return next_; }

 private:
  Clock::time_point began_;
  Clock::time_point next_;
  NoticeDelays delays_;
};

}  // namespace tessera::comm::detail
