// The state of a trainer, shared by the source files of the trainer.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/autograd/autograd.h"
#include "tessera/device/device.h"
#include "tessera/shard/exposed.h"
#include "tessera/tensor/device_context.h"
#include "tessera/tensor/tensor.h"
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
  // Takes the step by eager calls.
  void take_step(StepReport& report);
  // Returns true if the step is a replay. The first step is not: it creates groups and fills caches.
  bool is_replayed();
  // Takes the step as a graph, and captures it if needed.
  void replay_step(StepReport& report);
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
  // Reads the values of a finished step, and decides as the device did.
  void conclude(StepReport& report, const detail::StepReadings& readings);
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
  [[nodiscard]] bool is_looked_at() const { return before_update && steps == looked_at_step; }
  [[nodiscard]] const device::Stream& stream() const { return tensor::current_stream(tensor::default_device()); }

  Config config;
  ParallelPlan plan;
  std::shared_ptr<shard::ExposedTime> exposed = std::make_shared<shard::ExposedTime>();
  std::unique_ptr<detail::Workload> work;
  std::vector<Tensor> leaves;
  std::unique_ptr<nn::Optimizer> optimizer;
  MemoryBook book;
  detail::StepReadings readings;  // of eager steps
  // Micro-batches that were read ahead, by number, or the error of one.
  struct Prepared {
    std::uint64_t number;
    Batch batch;
    std::exception_ptr error;
  };
  std::deque<Prepared> prepared;
  // Copies of a checkpoint. The next update waits for them.
  std::vector<device::Event> update_after;
  std::int64_t steps = 0;
  std::optional<double> mean_norm;  // over the steps taken
  std::function<void(const BadStep&)> keep_bad_step;
  // Callback of one step, which is not replayed.
  std::function<void(const StepReport&, const StepActivations&)> before_update;
  std::int64_t looked_at_step = 0;
  bool was_checked = false;                // true if replicas have been compared
  std::optional<detail::StepGraph> graph;  // empty: steps are not replayed, or before the first step
};

}  // namespace tessera::train
