// Runs threads one at a time in an order chosen by a seed. Each participant runs until it yields or waits; then the
// scheduler hands the baton to one of those that can run, picked by its generator. Same seed and same program: same
// order, so that a race found once can be replayed for ever. When nobody can run, the earliest deadline is reached at
// once (time is virtual); when there is none either, it is a deadlock, and every waiter gets an error that lists all.
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

/// Threads with one baton. Thread-safe.
class TESSERA_API SeededScheduler : public std::enable_shared_from_this<SeededScheduler> {
 public:
  /// The interleaving of this seed.
  static std::shared_ptr<SeededScheduler> create(std::uint64_t seed);
  ~SeededScheduler();
  SeededScheduler(const SeededScheduler&) = delete;
  SeededScheduler& operator=(const SeededScheduler&) = delete;

  /// Makes the calling thread take part while it lives; returns holding the baton.
  class TESSERA_API Participant {
   public:
    /// Joins under this name and waits for the baton.
    Participant(std::shared_ptr<SeededScheduler> scheduler, std::string name);
    /// Leaves and hands the baton on.
    ~Participant();
    Participant(const Participant&) = delete;
    Participant& operator=(const Participant&) = delete;

   private:
    std::shared_ptr<SeededScheduler> scheduler_;
    std::shared_ptr<SchedulerSlot> slot_;
  };

  /// Starts a thread that takes part, working for the current rank. It is known to the scheduler before this returns,
  /// so the order does not depend on how fast threads start. Returns an id for join().
  std::uint64_t spawn(std::string name, std::function<void()> body);
  /// As spawn(), but the thread keeps no rank alive: for the workers of a device, which a rank owns.
  std::uint64_t spawn_unranked(std::string name, std::function<void()> body);
  /// Waits until a spawned thread has ended; rethrows what its body threw. Others run meanwhile.
  void join(std::uint64_t id);
  /// Lets another run; a no-op for a thread that does not take part.
  void yield();
  /// Waits until `ready()` is true, letting others run; false: `timeout` (virtual) passed first. `what` is shown in a
  /// deadlock report. `ready` is called with the baton held and must not block.
  bool wait_until(const std::function<bool()>& ready, std::chrono::nanoseconds timeout, const std::string& what);
  /// Waits like wait_until, as one who has nothing to do: it is no part of a deadlock and has no deadline.
  void park(const std::function<bool()>& ready, const std::string& what);
  /// Whether the calling thread takes part.
  [[nodiscard]] bool is_participant() const;
  /// A number from the scheduler's generator, below `bound`: for choices that should follow the seed too.
  std::uint64_t pick(std::uint64_t bound);
  /// Virtual time since the start.
  [[nodiscard]] std::chrono::nanoseconds now() const;
  /// Hash of the order so far: equal for equal runs.
  [[nodiscard]] std::uint64_t order_hash() const;
  /// How often the baton changed hands.
  [[nodiscard]] std::uint64_t switches() const;

 private:
  struct Impl;
  explicit SeededScheduler(std::uint64_t seed);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::device::host
