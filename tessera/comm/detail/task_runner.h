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
  void enqueue(const Task& task, const device::Stream& stream, device::HostFunction run) const;
  /// Runs the steps of a task: gives it its number before and notes after how it ended. Throws what they throw.
  void run(Task& task, const std::function<void()>& steps);
  /// Gives the task that runs now, and none after it, this much more time. From any thread.
  void extend(std::chrono::nanoseconds by) { extra_ns_.fetch_add(by.count(), std::memory_order_relaxed); }
  /// How much more time the task that runs was given.
  [[nodiscard]] std::chrono::nanoseconds extra() const {
    return std::chrono::nanoseconds(extra_ns_.load(std::memory_order_relaxed));
  }
  /// Tasks that have begun.
  [[nodiscard]] std::uint64_t sequence() const { return sequence_.load(std::memory_order_acquire); }

 private:
  const int rank_;
  const int size_;
  std::mutex running_;  // held by the task that runs
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<std::int64_t> extra_ns_{0};
};

}  // namespace tessera::comm::detail
