// Waits until a peer raises a word: a rank spins briefly, then sleeps until it is woken. Under a seeded scheduler it
// lets another rank run instead.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace tessera::device::host {
class SeededScheduler;
}

namespace tessera::comm::detail {

/// A wait strategy. Thread-safe.
class Waiting {
 public:
  /// Waits for ranks that are processes (`is_shared`) or threads. If `crowded` (more ranks than cores), it hardly
  /// spins.
  Waiting(bool is_shared, bool crowded) : is_shared_(is_shared), crowded_(crowded) {}
  /// Waits for ranks that a scheduler runs one at a time.
  explicit Waiting(std::shared_ptr<device::host::SeededScheduler> scheduler) : scheduler_(std::move(scheduler)) {}

  /// The condition of a wait.
  struct For {
    const std::function<bool()>& is_there;   ///< returns true if the condition holds
    const std::atomic<std::uint64_t>& word;  ///< word that the rank sleeps on; raised by the peer
    std::atomic<std::uint32_t>& sleepers;    ///< informs the peer that a rank sleeps
    const std::function<bool()>& is_over;    ///< returns true if the wait cannot succeed; called every few milliseconds
    std::chrono::nanoseconds timeout;        ///< limit of the wait
    const char* what;                        ///< shown if all ranks wait for each other
    /// Called after unsuccessful spinning, before the rank sleeps or yields; null: not called.
    const std::function<void()>* before_sleep = nullptr;
  };
  /// Returns true once the condition holds; false after the timeout or if the wait cannot succeed.
  bool wait(const For& what) const;
  /// Spins until `word` is at least `least` and returns true; returns false if that takes too long and needs a wait.
  [[nodiscard]] bool comes_soon(const std::atomic<std::uint64_t>& word, std::uint64_t least) const;
  /// Raises `word` and wakes the ranks that sleep on it.
  void raise(std::atomic<std::uint64_t>& word, std::uint64_t to, std::atomic<std::uint32_t>& sleepers) const;
  /// Wakes the ranks that sleep on an unchanged word.
  void wake(std::atomic<std::uint64_t>& word) const;
  /// Returns true if a scheduler runs the ranks: it provides the time, and reports deadlocks.
  [[nodiscard]] bool is_virtual() const { return scheduler_ != nullptr; }
  /// Returns the time for deadlines: virtual under a scheduler.
  [[nodiscard]] std::chrono::nanoseconds now() const;

 private:
  bool is_shared_ = false;
  bool crowded_ = false;
  std::shared_ptr<device::host::SeededScheduler> scheduler_;
};

}  // namespace tessera::comm::detail
