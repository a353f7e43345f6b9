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
  /// Tasks that have begun.
  [[nodiscard]] std::uint64_t sequence() const { return sequence_.load(std::memory_order_relaxed); }

 private:
  const int rank_;
  const int size_;
  std::mutex running_;  // held by the task that runs
  std::atomic<std::uint64_t> sequence_{0};
};

}  // namespace tessera::comm::detail
