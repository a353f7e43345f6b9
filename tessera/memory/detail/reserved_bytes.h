// The bytes that an allocator holds from its upstreams, their peak and their limit.
#pragma once

#include <atomic>
#include <cstddef>

namespace tessera::memory::detail {

/// Counts reserved bytes. add() and remove() are called with the slow lock held; the rest from any thread.
class ReservedBytes {
 public:
  /// Returns the bytes reserved now.
  [[nodiscard]] std::size_t now() const { return now_; }
  /// Returns their maximum since the last reset_peak().
  [[nodiscard]] std::size_t peak() const { return peak_; }
  /// Returns the limit; 0 if there is none.
  [[nodiscard]] std::size_t limit() const { return limit_; }
  /// Sets the limit, which holds for later reservations.
  void set_limit(std::size_t nbytes) { limit_ = nbytes; }
  /// Counts a reservation.
  void add(std::size_t nbytes) {
    const std::size_t sum = now_.fetch_add(nbytes) + nbytes;
    if (sum > peak_) peak_ = sum;
  }
  /// Counts a release.
  void remove(std::size_t nbytes) { now_ -= nbytes; }
  /// Starts a new peak.
  void reset_peak() { peak_ = now_.load(); }

 private:
  std::atomic<std::size_t> now_{0};
  std::atomic<std::size_t> peak_{0};
  std::atomic<std::size_t> limit_{0};
};

}  // namespace tessera::memory::detail
