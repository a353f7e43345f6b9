// The failures of a stream and the work after them. Only two kinds of work can fail without losing the device: a host
// function that throws, and a hold whose timeout passes. Each such operation takes a position in the count of its
// stream. An event stores the position at which it was recorded, and fails with failures before it. A stream that waits
// for the event inherits them.
//
//   stream A   host function (position 1, throws)   record (position 2) --.
//   stream B                                                               `-> wait: inherits from A all before 2
//
// If nothing can fail (the usual case), a record and a wait cost one load each.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/device/cuda/hold.h"

namespace tessera::device::cuda {

/// The failures of one stream. Shared by the stream, its callbacks and events recorded on it. Thread-safe.
class StreamErrors {
 public:
  using Place = std::uint64_t;

  /// Returns the position of an operation that may fail and is about to be enqueued.
  Place expect();
  /// Notes the end of an operation; `error` is null if it did not fail.
  void finish(Place place, std::exception_ptr error) noexcept;
  /// Notes a hold on the stream; `message` is for the error if its timeout passes.
  void expect_hold(std::shared_ptr<HoldWords> words, std::string message);
  /// Returns true if nothing has failed and no pending work can fail.
  [[nodiscard]] bool is_clean() const { return at_risk_.load(std::memory_order_relaxed) == 0; }
  /// Returns a position after all work so far, for an event.
  Place mark();
  /// Notes that the stream waits for work of `from` before `up_to`.
  void inherit(const std::shared_ptr<StreamErrors>& from, Place up_to);

  /// Returns the error of an event recorded at `up_to`, or null.
  std::exception_ptr before(Place up_to);
  /// Returns the error of the stream, or null.
  std::exception_ptr current() { return before(~Place{0}); }
  /// Clears the failures; streams that inherited them keep them.
  void reset();

 private:
  struct StreamFailure {
    Place place;
    std::exception_ptr error;
    Place forgotten_at;  // position of the reset that cleared it; 0: none
    // Returns true if it applies to a stream that waited for work before `up_to`, even if it was cleared since.
    [[nodiscard]] bool strikes(Place up_to) const {
      return place < up_to && (forgotten_at == 0 || up_to <= forgotten_at);
    }
  };
  struct PendingHold {
    Place place;
    std::shared_ptr<HoldWords> words;
    std::string message;
  };
  struct ErrorSource {
    std::shared_ptr<StreamErrors> from;
    Place up_to;
    Place at;  // position of the wait
  };
  std::exception_ptr inherited_before(Place up_to);
  bool is_settled(Place up_to);
  void settle_sources();
  void look_at_holds();
  void add_failure(Place place, std::exception_ptr error);
  void count_risk();

  std::atomic<std::size_t> at_risk_{0};
  std::mutex mutex_;
  bool is_settling_ = false;
  Place next_ = 1;
  std::vector<Place> pending_;
  std::vector<PendingHold> holds_;
  std::vector<StreamFailure> failures_;  // by position
  std::vector<ErrorSource> sources_;
};

}  // namespace tessera::device::cuda
