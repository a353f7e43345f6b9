// A count that only rises, and the failures met on the way. A stream has one (the count of its finished operations);
// an event record inside a graph has one a launch. A point of it is reached when the count passes it.
//
//   sequence   1  2  3  4  5  6  7  8
//                    x  -  -  |           operation 3 fails, the error is reset when 5 had been enqueued
//                    [------]             points 3 to 5 are failed for ever, 6 is clean
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

/// Thread-safe.
class Timeline {
 public:
  /// How far it has come.
  [[nodiscard]] std::uint64_t done() const { return done_.load(); }
  /// Whether it has come to `sequence`.
  [[nodiscard]] bool reached(std::uint64_t sequence) const { return done_.load() >= sequence; }
  /// Moves it to `sequence` and wakes those who want it.
  void advance(std::uint64_t sequence) {
    done_.store(sequence);
    if (sequence >= wanted_.load()) wake();
  }
  /// Says, between bell().listen() and a last look, that a sleeper wants `sequence`: what comes before wakes nobody.
  void want(std::uint64_t sequence);
  /// Notes that operation `sequence`, not yet passed by advance(), failed. The first failure of a stretch wins.
  void fail(std::uint64_t sequence, std::exception_ptr error);
  /// What failed at or before the point and had not been reset there; null: nothing.
  [[nodiscard]] std::exception_ptr failure_at(std::uint64_t sequence) const;
  /// Returns true if parked() is not null.
  [[nodiscard]] bool has_parked() const { return has_failures_.load(std::memory_order_acquire) && parked() != nullptr; }
  /// The failure that has not been reset; null: none.
  [[nodiscard]] std::exception_ptr parked() const;
  /// Operations after `last` are clean of all failures up to it, also of those that are yet to happen.
  void reset_after(std::uint64_t last);
  /// Rings when it comes to what was wanted.
  [[nodiscard]] Bell& bell() { return bell_; }

 private:
  static constexpr std::uint64_t kOpen = std::numeric_limits<std::uint64_t>::max();
  struct Failure {
    std::uint64_t first;
    std::uint64_t last;
    std::exception_ptr error;
  };

  void wake();

  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::uint64_t> wanted_{kOpen};  // the least that a sleeper wants
  Bell bell_;
  std::atomic<bool> has_failures_{false};
  mutable std::mutex mutex_;
  std::vector<Failure> failures_;      // ascending
  std::vector<std::uint64_t> resets_;  // ascending; those that a failure yet to come may meet
};

/// A moment on a timeline.
struct Point {
  std::shared_ptr<Timeline> timeline = nullptr;  ///< null: a moment that lies behind everything
  std::uint64_t sequence = 0;                    ///< place on it
  /// Whether it lies behind.
  [[nodiscard]] bool reached() const { return timeline == nullptr || timeline->reached(sequence); }
  /// What failed before it; null: nothing.
  [[nodiscard]] std::exception_ptr failure() const { return timeline ? timeline->failure_at(sequence) : nullptr; }
};

}  // namespace tessera::device::host::detail
