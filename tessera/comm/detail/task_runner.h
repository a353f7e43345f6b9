// Tasks that the host runs in the order of their stream: one at a time, numbered where they run, so that replays count
// too. Shared by the transports whose operations are host work (thread, shm, mpi).
#pragma once

#include <functional>
#include <memory>

#include "tessera/base/probe/tsc_clock.h"
#include "tessera/comm/communicator.h"

namespace tessera::comm::detail {

/// See the head of this file. One to a communicator; thread-safe.
class TaskRunner {
 public:
  /// Of this rank of `size`.
  TaskRunner(int rank, int size) : rank_(rank), size_(size) {}
  /// Puts `run`, which is to call run() below, on the stream with what the task reads and writes.
  void enqueue(Task& task, const device::Stream& stream, device::HostFunction run) const;
  /// As Communicator::run_now(), with these steps.
  bool run_now(Task& task, const device::Stream& stream, const std::function<void()>& steps);
  /// Runs the steps of a task: gives it its number before and notes after how it ended. Throws what they throw. The
  /// steps call note_began() before they wait for other ranks. `asked_on`: the stream that the task was asked for on,
  /// if its record does not say so yet.
  void run(Task& task, const std::function<void()>& steps, const device::Stream* asked_on = nullptr);
  /// Records that the task that runs began, once.
  void note_began(const Task& task);
  /// Gives the task that runs and those that are enqueued now this much more time each. From any thread.
  void extend(std::chrono::nanoseconds by) { extended_ns_.fetch_add(by.count(), std::memory_order_relaxed); }
  /// Returns the time by which the deadline of the task that runs was extended.
  [[nodiscard]] std::chrono::nanoseconds extra() const {
    return std::chrono::nanoseconds(extended_ns_.load(std::memory_order_relaxed) -
                                    before_ns_.load(std::memory_order_relaxed));
  }
  /// Returns the time since the task that runs began.
  [[nodiscard]] std::chrono::nanoseconds elapsed() const { return time_of(probe::read_ticks(clock_) - began_ticks_); }
  /// Tasks that have begun.
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
  std::uint64_t began_ticks_ = 0;             // when that task began
  bool is_begin_noted_ = false;               // and whether its record says so
  const device::Stream* asked_on_ = nullptr;  // see run()
  std::atomic<std::uint64_t> sequence_{0};    // written by that task alone
  std::atomic<std::int64_t> extended_ns_{0};  // all extensions so far
  std::atomic<std::int64_t> before_ns_{0};    // those of them that came before the task that runs was enqueued
};

}  // namespace tessera::comm::detail
