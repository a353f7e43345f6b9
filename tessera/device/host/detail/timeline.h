// A count that only increases, and the failures on the way. A stream has one (the count of its completed operations);
// an event record inside a graph has one per launch. A point is reached when the count reaches it.
//
//   sequence   1  2  3  4  5  6  7  8
//                    x  -  -  |           operation 3 fails, and the error is reset after 5 was enqueued
//                    [------]             points 3 to 5 stay failed, 6 has no failure
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "tessera/device/host/detail/bell.h"

namespace tessera::device::host::detail {

/// The count of one stream or record. Thread-safe.
class Timeline {
 public:
  /// Returns the current count.
  [[nodiscard]] std::uint64_t done() const { return done_.load(); }
  /// Returns true if the count has reached `sequence`.
  [[nodiscard]] bool reached(std::uint64_t sequence) const { return done_.load() >= sequence; }
  /// Sets the count to `sequence` and wakes the threads that requested it.
  void advance(std::uint64_t sequence) {
    done_.store(sequence);
    if (sequence >= wanted_.load()) wake();
  }
  /// Requests a wake-up at `sequence`, between bell().listen() and a last check; earlier counts do not wake the
  /// sleeper.
  void want(std::uint64_t sequence);
  /// Notes that operation `sequence`, which advance() has not passed yet, failed. The first failure since a reset wins.
  void fail(std::uint64_t sequence, std::exception_ptr error);
  /// Returns the error at or before the point that had not been reset there, or null.
  [[nodiscard]] std::exception_ptr failure_at(std::uint64_t sequence) const;
  /// Returns true if parked() is not null.
  [[nodiscard]] bool has_parked() const { return has_failures_.load(std::memory_order_acquire) && parked() != nullptr; }
  /// Returns the error that has not been reset, or null.
  [[nodiscard]] std::exception_ptr parked() const;
  /// Clears all failures up to `last` for operations after it, including failures that have not happened yet.
  void reset_after(std::uint64_t last);
  /// Returns the bell that rings when a requested count is reached.
  [[nodiscard]] Bell& bell() { return bell_; }

 private:
  static constexpr std::uint64_t kOpen = std::numeric_limits<std::uint64_t>::max();
  struct TimelineFailure {
    std::uint64_t first;
    std::uint64_t last;
    std::exception_ptr error;
  };

  void wake();

  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::uint64_t> wanted_{kOpen};  // lowest count that a sleeper requested
  Bell bell_;
  std::atomic<bool> has_failures_{false};
  mutable std::mutex mutex_;
  std::vector<TimelineFailure> failures_;  // ascending
  std::vector<std::uint64_t> resets_;      // ascending; resets that may apply to a later failure
};

/// A point on a timeline.
struct Point {
  std::shared_ptr<Timeline> timeline = nullptr;  ///< null: a point that is always reached
  std::uint64_t sequence = 0;                    ///< position on the timeline
  /// Returns true if the point is reached.
  [[nodiscard]] bool reached() const { return timeline == nullptr || timeline->reached(sequence); }
  /// Returns the error before the point, or null.
  [[nodiscard]] std::exception_ptr failure() const { return timeline ? timeline->failure_at(sequence) : nullptr; }
};

}  // namespace tessera::device::host::detail
