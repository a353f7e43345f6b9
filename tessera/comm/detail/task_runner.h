// Runs tasks on the host in the order of their stream, one at a time. Tasks are numbered when they run, so that replays
// count too. Used by backends whose operations are host work (thread, shm, mpi).
#pragma once

#include <functional>
#include <memory>

#include "tessera/base/probe/tsc_clock.h"
#include "tessera/comm/communicator.h"

namespace tessera::comm::detail {

/// The task runner of one communicator. Thread-safe.
class TaskRunner {
 public:
  /// Creates the runner of this group rank in a group of `size` ranks.
  TaskRunner(int rank, int size) : rank_(rank), size_(size) {}
  /// Enqueues `run`, which must call run() below, on the stream, and declares the buffers of the task.
  void enqueue(Task& task, const device::Stream& stream, device::HostFunction run) const;
  /// Implements Communicator::run_now() with these steps.
  bool run_now(Task& task, const device::Stream& stream, const std::function<void()>& steps);
  /// Assigns the task its number, runs its steps, and records the result. Rethrows the error of the steps. The steps
  /// call note_began() before they wait for other ranks. `asked_on` is the stream of the task if its enqueue is not
  /// recorded yet.
  void run(Task& task, const std::function<void()>& steps, const device::Stream* asked_on = nullptr);
  /// Records once that the running task started.
  void note_began(const Task& task);
  /// Extends the deadlines of the running task and of the enqueued tasks. Callable from any thread.
  void extend(std::chrono::nanoseconds by) { extended_ns_.fetch_add(by.count(), std::memory_order_relaxed); }
  /// Returns the extension of the deadline of the running task.
  [[nodiscard]] std::chrono::nanoseconds extra() const {
    return std::chrono::nanoseconds(extended_ns_.load(std::memory_order_relaxed) -
                                    before_ns_.load(std::memory_order_relaxed));
  }
  /// Returns the time since the running task started.
  [[nodiscard]] std::chrono::nanoseconds elapsed() const { return time_of(probe::read_ticks(clock_) - began_ticks_); }
  /// Returns the number of started tasks.
  [[nodiscard]] std::uint64_t sequence() const { return sequence_.load(std::memory_order_acquire); }

 private:
  const int rank_;
  const int size_;
  [[nodiscard]] std::chrono::nanoseconds time_of(std::uint64_t ticks) const {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(ticks) * ns_per_tick_));
  }

  const probe::ClockSource clock_ = probe::best_clock_source();
  const double ns_per_tick_ = 1e9 / static_cast<double>(probe::ticks_per_second(clock_));
  std::atomic<bool> is_running_{false};       // true while a task runs
  std::uint64_t began_ticks_ = 0;             // start of that task
  bool is_begin_noted_ = false;               // the start of that task is recorded
  const device::Stream* asked_on_ = nullptr;  // see run()
  std::atomic<std::uint64_t> sequence_{0};    // written only by that task
  std::atomic<std::int64_t> extended_ns_{0};  // sum of all extensions
  std::atomic<std::int64_t> before_ns_{0};    // sum of the extensions before the running task was enqueued
};

}  // namespace tessera::comm::detail
