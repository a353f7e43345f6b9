// What failed on a stream, and who is behind it. Only two kinds of work can fail without losing the device: a host
// function that throws and a hold whose deadline passes. Each such operation takes a place in its stream's count; an
// event remembers the place at which it was recorded and fails for what failed before it; a stream that waits for the
// event inherits that.
//
//   stream A   host function (place 1, throws)   record (place 2) --.
//   stream B                                                         `-> wait: inherits from A what is before 2
//
// With nothing at risk (the usual case) a record and a wait cost one load each.
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

  /// An operation that may fail is about to be put on the stream.
  Place expect();
  /// It is over; `error` null: it did not fail.
  void finish(Place place, std::exception_ptr error) noexcept;
  /// A hold was put on the stream; `message` is for the error if its deadline passes.
  void expect_hold(std::shared_ptr<HoldWords> words, std::string message);
  /// Whether nothing has failed and nothing that could is pending.
  [[nodiscard]] bool is_clean() const { return at_risk_.load(std::memory_order_relaxed) == 0; }
  /// A place behind everything so far, for an event.
  Place mark();
  /// The stream waits for work of `from` before `up_to`.
  void inherit(const std::shared_ptr<StreamErrors>& from, Place up_to);

  /// What an event recorded at `up_to` fails with; null: nothing.
  std::exception_ptr before(Place up_to);
  /// What the stream fails with; null: nothing.
  std::exception_ptr current() { return before(~Place{0}); }
  /// Forgets what has failed; streams that inherited it keep it.
  void reset();

 private:
  struct Failure {
    Place place;
    std::exception_ptr error;
    Place forgotten_at;  // place of the reset that forgot it; 0: none
    // Whether it counts for a stream that waited for what is before `up_to`, whatever has been forgotten since.
    [[nodiscard]] bool strikes(Place up_to) const {
      return place < up_to && (forgotten_at == 0 || up_to <= forgotten_at);
    }
  };
  struct PendingHold {
    Place place;
    std::shared_ptr<HoldWords> words;
    std::string message;
  };
  struct Source {
    std::shared_ptr<StreamErrors> from;
    Place up_to;
    Place at;  // own place of the wait
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
  std::vector<Failure> failures_;  // by place
  std::vector<Source> sources_;
};

}  // namespace tessera::device::cuda
