// The state of a trainer, shared by the source files of the trainer.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/autograd/autograd.h"
#include "tessera/device/device.h"
#include "tessera/device/event.h"
#include "tessera/ops/create/generator.h"
#include "tessera/shard/exposed.h"
#include "tessera/tensor/device_context.h"
#include "tessera/tensor/tensor.h"
#include "tessera/train/detail/deterministic.h"
#include "tessera/train/detail/step_graph.h"
#include "tessera/train/detail/step_values.h"
#include "tessera/train/detail/workload.h"
#include "tessera/train/make_model.h"
#include "tessera/train/memory_book.h"
#include "tessera/train/plan.h"
#include "tessera/train/trainer.h"

namespace tessera::train {

/// State of the trainer of one rank.
struct Trainer::State {
  // `make` creates the workload, once the generator of this rank has its seed.
  using MakeWorkload = std::function<std::unique_ptr<detail::Workload>(const State& state)>;
  State(const Config& given, const MakeWorkload& make);

  // Returns the reduced loss and gradients of the micro-batches of the step. Enqueues work and does not wait.
  detail::StepValues compute(const std::function<Batch(std::int64_t m)>& batch_at);
  // A step whose work was enqueued.
  struct EnqueuedStep {
    StepReport report;
    std::chrono::steady_clock::time_point begin;
    ops::GeneratorState random;  // before the step
    bool is_replayed = false;
    bool is_ahead = false;          // its gradients were freed, because the next step may be enqueued before it is read
    device::Event done = {};        // after its last work
    std::exception_ptr error = {};  // it could not be enqueued
  };
  // Enqueues the next step. If `is_ahead`, it may be read after another one was enqueued. If `is_chained`, the step
  // before it was not read yet, and the device skips this one if it skipped that one.
  void enqueue_step(bool is_ahead, bool is_chained);
  // Enqueues the next step while the one before it is not read. An error is thrown when that step is due.
  void enqueue_ahead();
  // Returns true if the next step depends on no decision of the host about the enqueued one.
  [[nodiscard]] bool may_enqueue_ahead() const;
  // Waits for the oldest enqueued step, and decides as the device did. A bad step that was enqueued ahead is taken
  // again: the device has changed nothing since.
  StepReport finish_step();
  StepReport take_again(const EnqueuedStep& bad);
  // Throws unless every step that was enqueued is finished.
  void check_no_step_ahead(const char* what) const;
  // Enqueues the step by eager calls.
  void take_step(StepReport& report, bool is_ahead, bool is_chained);
  // Returns true if the step is a replay. The first step is not: it creates groups and fills caches.
  bool is_replayed();
  // Enqueues the step as a graph, and captures it if needed.
  void replay_step(StepReport& report, bool is_chained);
  void capture_step();
  // Number of micro-batch m of this step.
  [[nodiscard]] std::uint64_t number_of_batch(std::int64_t m) const {
    return static_cast<std::uint64_t>((steps - 1) * config.train.accumulate + m);
  }
  // Returns the rows of this rank of micro-batch m, with later work of the current stream after their copy.
  Batch next_batch(std::int64_t m);
  // Reads and uploads the first `count` micro-batches of the next step while the device computes this one. On the host,
  // which copies nothing, does nothing. An error is thrown when the batch is needed.
  void prepare_batches(std::int64_t count);
  Batch read_batch(std::uint64_t k) const;
  // Returns the language model of the trainer, or throws: `what` needs tokens.
  [[nodiscard]] const detail::LanguageWorkload& language(const char* what) const;
  void settle_gradients();
  // Updates the parameters by their gradients times `clip_factor`, unless `skip` is set when the work runs.
  void update(double learning_rate, const Tensor& clip_factor, const Tensor& skip);
  // Orders later work of the current stream after the copies of a checkpoint.
  void wait_for_copies();
  // The values of a step on the host. At most two steps are enqueued.
  detail::StepReadings& readings_of(const StepReport& report) {
    return readings[static_cast<std::size_t>(report.step) % readings.size()];
  }
  // Reads the values of a finished step, and decides as the device did.
  void conclude(StepReport& report);
  // Passes a step that is not taken to the callback of keep_bad_steps().
  void keep(const StepReport& report) const;
  // Returns the norm above which gradients are a spike.
  [[nodiscard]] double largest_norm() const;
  // Decides by policy whether the step is skipped. Throws under the policy "stop".
  StepEnd judged(StepReport& report);
  void drop_gradients() {
    for (const Tensor& leaf : leaves) autograd::set_grad(leaf, {});
  }
  // Compares the replicas of parameters if that is due: after the first step of this trainer and every
  // run.check_replicas steps. The step must have finished.
  void check_replicas_if_due();
  [[nodiscard]] bool is_check_due(std::int64_t step) const {
    const std::int64_t every = config.run.check_replicas;
    return every > 0 && (!was_checked || step % every == 0);
  }
  [[nodiscard]] bool is_looked_at() const { return before_update && steps == looked_at_step; }
  [[nodiscard]] const device::Stream& stream() const { return tensor::current_stream(tensor::default_device()); }

  Config config;
  detail::DeterministicScope deterministic;
  ParallelPlan plan;
  std::shared_ptr<shard::ExposedTime> exposed = std::make_shared<shard::ExposedTime>();
  std::unique_ptr<detail::Workload> work;
  std::vector<Tensor> leaves;
  std::unique_ptr<nn::Optimizer> optimizer;
  MemoryBook book;
  std::array<detail::StepReadings, 2> readings;
  std::deque<EnqueuedStep> enqueued;
  std::chrono::steady_clock::time_point finished_at = {};  // end of the last finished step
  Tensor bound;                                            // of the norm of the next eager step, if it is chained
  // Micro-batches that were read ahead, by number, or the error of one.
  struct Prepared {
    std::uint64_t number;
    Batch batch;
    std::exception_ptr error;
  };
  std::deque<Prepared> prepared;
  // Copies of a checkpoint. The next update waits for them.
  std::vector<device::Event> update_after;
  std::int64_t steps = 0;           // enqueued
  std::optional<double> mean_norm;  // over the steps taken
  std::function<void(const BadStep&)> keep_bad_step;
  // Callback of one step, which is not replayed.
  std::function<void(const StepReport&, const StepActivations&)> before_update;
  std::int64_t looked_at_step = 0;
  bool was_checked = false;                // true if replicas have been compared
  std::optional<detail::StepGraph> graph;  // empty: steps are not replayed, or before the first step
};

}  // namespace tessera::train
