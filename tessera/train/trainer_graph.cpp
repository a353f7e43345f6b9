// Replayed steps of the trainer (detail/step_graph.h).
#include <optional>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/comm/device_of_rank.h"
#include "tessera/memory/allocator.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/detail/trainer_state.h"

namespace tessera::train {

using detail::StepValues;

bool Trainer::State::is_replayed() {
  if (!config.train.graph || steps == looked_at_step) return false;
  if (graph) return true;
  // A graph of one rank that spins in a collective can keep the driver from starting that of another rank.
  TESSERA_CHECK_AS(NotSupported, !comm::shares_device(tensor::default_device()),
                   "train.graph: requires a device per rank, got ranks that share ", tensor::default_device().name(),
                   "; start a process per device, or omit train.graph");
  graph.emplace(config.train.accumulate);
  return false;
}

device::Graph Trainer::step_graph() const {
  return state_->graph && state_->graph->graph() ? state_->graph->graph().graph() : device::Graph();
}

void Trainer::State::capture_step() {
  exposed->begin_capture();
  book.note_graph({}, {});
  const detail::StepBody body{
      .compute =
          [this](std::span<const Batch> given) {
            return compute([&](std::int64_t m) { return given[static_cast<std::size_t>(m)]; });
          },
      .update =
          [this](const StepValues& values, const Tensor& learning_rate, const Tensor& skip) {
            optimizer->step(
                {.scalars = {.learning_rate = learning_rate, .clip_factor = values.norm.factor, .skip = skip},
                 .keeps_gradients = true});
          },
      .leaves = leaves};
  // Memory that eager steps left in the caches of the allocator is no longer useful.
  memory::Allocator::of(tensor::default_device()).trim();
  try {
    graph->capture(body, stream());
  } catch (...) {
    --steps;  // no step was taken, and no batch was read
    throw;
  }
  book.note_graph(graph->graph().pool(), graph->gradients());
}

void Trainer::State::replay_step(StepReport& report, bool is_chained) {
  if (!graph->is_ready()) capture_step();
  if (!tensor::default_device().properties().has_values) return drop_gradients();  // no batch to read, nothing to run
  for (std::int64_t m = 0; m < config.train.accumulate; ++m) graph->set_batch(m, next_batch(m), plan);
  wait_for_copies();
  graph->replay(report.learning_rate, is_chained ? std::nullopt : std::optional(largest_norm()), stream());
  readings_of(report).read(graph->outcome());
  prepare_batches(config.train.accumulate);
}

}  // namespace tessera::train
