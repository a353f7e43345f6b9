// How a rank waits until a peer raises a word: it spins a little, then sleeps until it is woken. Under a seeded
// scheduler it gives its turn away instead.
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

/// See the head of this file. Thread-safe.
class Waiting {
 public:
  /// Of ranks that are processes (`is_shared`) or threads; with `crowded`, more of them than cores, it hardly spins.
  Waiting(bool is_shared, bool crowded) : is_shared_(is_shared), crowded_(crowded) {}
  /// Of ranks that take turns.
  explicit Waiting(std::shared_ptr<device::host::SeededScheduler> scheduler) : scheduler_(std::move(scheduler)) {}

  /// What a rank waits for.
  struct For {
    const std::function<bool()>& is_there;   ///< has it come?
    const std::atomic<std::uint64_t>& word;  ///< what it sleeps on: raised by the peer that it waits for
    std::atomic<std::uint32_t>& sleepers;    ///< where that peer sees that somebody sleeps
    const std::function<bool()>& is_over;    ///< is it in vain? asked every few milliseconds
    std::chrono::nanoseconds timeout;        ///< for how long
    const char* what;                        ///< shown when all ranks wait for each other
    /// Called when spinning was in vain and the rank is about to sleep, or to give its turn away; null: nothing.
    const std::function<void()>* before_sleep = nullptr;
  };
  /// Returns true once it is there; false when the time is up or it is in vain.
  bool wait(const For& what) const;
  /// Returns true once `word` is at least `least`; false when it has not come to that soon, and has to be waited for.
  [[nodiscard]] bool comes_soon(const std::atomic<std::uint64_t>& word, std::uint64_t least) const;
  /// Raises `word` and wakes who sleeps on it.
  void raise(std::atomic<std::uint64_t>& word, std::uint64_t to, std::atomic<std::uint32_t>& sleepers) const;
  /// Wakes who sleeps on it though it has not changed.
  void wake(std::atomic<std::uint64_t>& word) const;
  /// Whether ranks take turns: time is that of a scheduler then, which says what each waits for when all do.
  [[nodiscard]] bool is_virtual() const { return scheduler_ != nullptr; }
  /// Time for deadlines: virtual under a scheduler.
  [[nodiscard]] std::chrono::nanoseconds now() const;

 private:
  bool is_shared_ = false;
  bool crowded_ = false;
  std::shared_ptr<device::host::SeededScheduler> scheduler_;
};

}  // namespace tessera::comm::detail
