// Runs threads one at a time in an order that a seed determines. Each participant runs until it yields or waits; then
// the scheduler's generator picks the next one that can run. The same seed and program give the same order, so that a
// race can be reproduced. If no participant can run, virtual time advances to the earliest deadline. If there is no
// deadline either, the participants are deadlocked, and each waiter gets an error that lists all of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::device::host {

struct SchedulerSlot;

/// A set of threads that run one at a time. Thread-safe.
class TESSERA_API SeededScheduler : public std::enable_shared_from_this<SeededScheduler> {
 public:
  /// Creates a scheduler with the interleaving of this seed.
  static std::shared_ptr<SeededScheduler> create(std::uint64_t seed);
  ~SeededScheduler();
  SeededScheduler(const SeededScheduler&) = delete;
  SeededScheduler& operator=(const SeededScheduler&) = delete;

  /// Makes the calling thread a participant while this object lives.
  class TESSERA_API Participant {
   public:
    /// Joins under this name and waits for its turn.
    Participant(std::shared_ptr<SeededScheduler> scheduler, std::string name);
    /// Leaves and lets another participant run.
    ~Participant();
    Participant(const Participant&) = delete;
    Participant& operator=(const Participant&) = delete;

   private:
    std::shared_ptr<SeededScheduler> scheduler_;
    std::shared_ptr<SchedulerSlot> slot_;
  };

  /// Starts a participating thread that works for the current rank. The scheduler knows it before this call returns, so
  /// the order does not depend on how fast threads start. Returns an id for join().
  std::uint64_t spawn(std::string name, std::function<void()> body);
  /// Like spawn(), but the thread does not keep the rank alive. Used for workers of a device that a rank owns.
  std::uint64_t spawn_unranked(std::string name, std::function<void()> body);
  /// Waits until a spawned thread has ended and rethrows its error. Other participants run meanwhile.
  void join(std::uint64_t id);
  /// Lets another participant run. Has no effect on threads that do not take part.
  void yield();
  /// Waits until `ready()` returns true, and lets others run. Returns false if `timeout` (virtual) passed first.
  /// Deadlock reports show `what`. `ready` is called while no other participant runs, and must not block.
  bool wait_until(const std::function<bool()>& ready, std::chrono::nanoseconds timeout, const std::string& what);
  /// Waits like wait_until, as an idle thread: it does not count in deadlocks and has no deadline.
  void park(const std::function<bool()>& ready, const std::string& what);
  /// Returns true if the calling thread takes part.
  [[nodiscard]] bool is_participant() const;
  /// Returns a value of the scheduler's generator below `bound`, for choices that follow the seed.
  std::uint64_t pick(std::uint64_t bound);
  /// Returns the virtual time since the start.
  [[nodiscard]] std::chrono::nanoseconds now() const;
  /// Returns a hash of the order so far; equal for equal runs.
  [[nodiscard]] std::uint64_t order_hash() const;
  /// Returns the number of switches between participants.
  [[nodiscard]] std::uint64_t switches() const;

 private:
  struct Impl;
  explicit SeededScheduler(std::uint64_t seed);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::device::host
