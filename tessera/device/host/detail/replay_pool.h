// Threads that help a stream replay a wide graph. The stream's own thread works too, so a replay never waits for a
// helper to be free.
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

/// One replay and what is left of it. Thread-safe.
class ReplayJob {
 public:
  /// All steps of `plan`.
  explicit ReplayJob(const GraphPlan& plan);
  /// Runs steps until all have run, on the thread that made the job.
  void work();
  /// The same on another thread, for the rank of the one that made the job.
  void help();
  /// After work(): what the first failing step threw; null: nothing.
  [[nodiscard]] std::exception_ptr error() const { return error_; }

 private:
  void run_step(std::uint32_t step);
  // Of the steps that are ready the one that was captured first. So a thread that finds no helper goes in the order of
  // the capture, which is the same on all ranks: steps that wait for other ranks do not wait for each other.
  std::uint32_t take_first();
  template <class RunStep>
  void run_steps(const RunStep& run);

  const GraphPlan& plan_;  // touched only while a step is left
  const WeakRank rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::size_t> missing_;  // of each step, how many it still waits for
  std::vector<std::uint32_t> ready_;
  std::size_t left_;
  std::exception_ptr error_;
};

/// The helpers of one device, started when first needed. Thread-safe.
class ReplayPool : public std::enable_shared_from_this<ReplayPool> {
 public:
  explicit ReplayPool(std::shared_ptr<HostShared> shared) : shared_(std::move(shared)) {}
  /// The most threads that work on one replay, the caller's included; at least 2.
  [[nodiscard]] static std::size_t most_threads();
  /// Runs all steps of `plan` on up to `width` threads; throws what failed first.
  void run(const GraphPlan& plan, std::size_t width);
  /// Lets the helpers end.
  void stop();

 private:
  void help();

  const std::shared_ptr<HostShared> shared_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<ReplayJob>> wanted_;  // a job stands here once for each helper it asks for
  std::size_t helpers_ = 0;
  bool stopping_ = false;
};

}  // namespace tessera::device::host::detail
