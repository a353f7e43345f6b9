// Threads that help a stream replay a wide graph. The thread of the stream works too, so a replay never waits for a
// free helper.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "tessera/device/host/detail/host_shared.h"

namespace tessera::device::host::detail {

class GraphPlan;

/// One replay and its remaining steps. Thread-safe.
class ReplayJob {
 public:
  /// Starts with all steps of `plan`.
  explicit ReplayJob(const GraphPlan& plan);
  /// Runs steps until all have run, on the thread that created the job.
  void work();
  /// Same as work(), on another thread, for the rank of the creating thread.
  void help();
  /// Returns the error of the first failed step, or null. Call it after work().
  [[nodiscard]] std::exception_ptr error() const { return error_; }

 private:
  void run_step(std::uint32_t step);
  // Returns the ready step that was captured first. A thread without helpers thus follows the order of the capture,
  // which is equal on all ranks: steps that wait for other ranks do not wait for each other.
  std::uint32_t take_first();
  template <class RunStep>
  void run_steps(const RunStep& run);

  const GraphPlan& plan_;  // accessed only while a step remains
  const WeakRank rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::size_t> missing_;  // per step: number of steps it still waits for
  std::vector<std::uint32_t> ready_;
  std::size_t left_;
  std::exception_ptr error_;
};

/// The helpers of one device, started when first needed. Thread-safe.
class ReplayPool : public std::enable_shared_from_this<ReplayPool> {
 public:
  explicit ReplayPool(std::shared_ptr<HostShared> shared) : shared_(std::move(shared)) {}
  /// Returns the maximum number of threads per replay, including the caller; at least 2.
  [[nodiscard]] static std::size_t max_threads();
  /// Runs all steps of `plan` on up to `width` threads. Rethrows the first error.
  void run(const GraphPlan& plan, std::size_t width);
  /// Ends the helpers.
  void stop();

 private:
  void help();

  const std::shared_ptr<HostShared> shared_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<ReplayJob>> wanted_;  // contains a job once for each helper it requests
  std::size_t helpers_ = 0;
  bool stopping_ = false;
};

}  // namespace tessera::device::host::detail
