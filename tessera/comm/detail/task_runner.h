// Tasks that the host runs in the order of their stream: one at a time, numbered where they run, so that replays count
// too. Shared by the transports whose operations are host work (thread, shm, mpi).
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "tessera/comm/communicator.h"

namespace tessera::comm::detail {

/// See the head of this file. One to a communicator; thread-safe.
class TaskRunner {
 public:
  /// Of this rank of `size`.
  TaskRunner(int rank, int size) : rank_(rank), size_(size) {}
  /// Puts `run`, which is to call run() below, on the stream with what the task reads and writes.
  void enqueue(Task& task, const device::Stream& stream, device::HostFunction run) const;
  /// Runs the steps of a task: gives it its number before and notes after how it ended. Throws what they throw.
  void run(Task& task, const std::function<void()>& steps);
  /// Gives the task that runs and those that are enqueued now this much more time each. From any thread.
  void extend(std::chrono::nanoseconds by) { extended_ns_.fetch_add(by.count(), std::memory_order_relaxed); }
  /// Returns the time by which the deadline of the task that runs was extended.
  [[nodiscard]] std::chrono::nanoseconds extra() const {
    return std::chrono::nanoseconds(extended_ns_.load(std::memory_order_relaxed) -
                                    before_ns_.load(std::memory_order_relaxed));
  }
  /// Tasks that have begun.
  [[nodiscard]] std::uint64_t sequence() const { return sequence_.load(std::memory_order_acquire); }

 private:
  const int rank_;
  const int size_;
  std::mutex running_;  // held by the task that runs
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<std::int64_t> extended_ns_{0};  // all extensions so far
  std::atomic<std::int64_t> before_ns_{0};    // those of them that came before the task that runs was enqueued
};

}  // namespace tessera::comm::detail
