// What a trainer holds. Apart from trainer.h, so that the parts of the trainer are files of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tessera/autograd/autograd.h"
#include "tessera/device/device.h"
#include "tessera/tensor/device_context.h"
#include "tessera/tensor/tensor.h"
#include "tessera/train/detail/batch.h"
#include "tessera/train/detail/step_graph.h"
#include "tessera/train/exposed.h"
#include "tessera/train/memory_book.h"
#include "tessera/train/model.h"
#include "tessera/train/optimizer.h"
#include "tessera/train/plan.h"
#include "tessera/train/trainer.h"

namespace tessera::train {

/// Of one rank.
struct Trainer::State {
  State(const Config& given, BatchSource source);

  // Loss and gradients of the step's micro-batches, settled. Asks for work, and waits for none of it.
  detail::StepValues compute(const std::function<detail::Batch(std::int64_t m)>& batch_at);
  // The step, call by call.
  void take_step(StepReport& report);
  // Whether the step is a replay of a graph: not the first, in which ranks meet and caches fill.
  bool is_replayed();
  // The step as a graph, captured when there is none yet.
  void replay_step(StepReport& report);
  void capture_step();
  // Of micro-batch m of this step: its number, and this rank's rows.
  [[nodiscard]] std::uint64_t number_of_batch(std::int64_t m) const {
    return static_cast<std::uint64_t>((steps - 1) * config.train.accumulate + m);
  }
  std::vector<std::int32_t> next_rows(std::int64_t m);
  void settle_gradients();
  // Hands a step that is not taken to who asked for such.
  void keep(const StepReport& report) const;
  // Gradient norms above it are a spike.
  [[nodiscard]] double largest_norm() const;
  // Whether the step is not to be taken, by policy; throws where that says stop.
  StepEnd judged(StepReport& report);
  void drop_gradients() {
    for (const Tensor& leaf : leaves) autograd::set_grad(leaf, {});
  }
  // Compares the replicas of parameters if that is due: after the first step of this trainer and every
  // run.check_replicas steps. The step has completed.
  void check_replicas_if_due();
  [[nodiscard]] bool is_looked_at() const { return before_update && steps == looked_at_step; }
  [[nodiscard]] const device::Stream& stream() const { return tensor::current_stream(device::Device::get("host")); }

  Config config;
  Plan plan;
  BatchSource batches;
  ExposedTime exposed;
  Model model;
  std::vector<Tensor> leaves;
  Optimizer optimizer;
  MemoryBook book;
  std::int64_t steps = 0;
  std::optional<double> mean_norm;  // of steps that were taken
  std::function<void(const BadStep&)> keep_bad_step;
  // Of one step, which is not replayed.
  std::function<void(const StepReport&, const StepActivations&)> before_update;
  std::int64_t looked_at_step = 0;
  bool was_checked = false;                // whether replicas have been compared
  std::optional<detail::StepGraph> graph;  // none: steps are not replayed, or the first is still to come
};

}  // namespace tessera::train
