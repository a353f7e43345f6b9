// A complete training step as one graph, captured once and replayed: forward, backward, collectives, the norm, the
// decision to skip the step, and the optimizer.
//
//   host                               device memory                    graph
//   batches, learning rate,   ------>  tokens, targets, scalars  ---->  losses and gradients of all micro-batches
//   random counter, bound                                               skip = loss or norm not finite, or a spike
//   loss, norm, skip          <-----  outcome                 <-----------  (the host copies it after the replay)
//                                      parameters, gradients     <----  optimizer, which changes nothing if skip is set
//
// Values that change between steps are read when the graph runs, so a replay depends on no decision of the host. A
// replay draws the same random numbers as the step without capture, because it receives the advance of the generator of
// this rank since the capture. Parameters and optimizer state stay at their addresses, so callers may write them in
// place between steps. The memory of the step is planned in the capture, in a separate pool.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tessera/device/stream.h"
#include "tessera/memory/graph_capture.h"
#include "tessera/ops/create/generator.h"
#include "tessera/tensor/tensor.h"
#include "tessera/train/detail/step_values.h"
#include "tessera/train/plan.h"
#include "tessera/train/task.h"

namespace tessera::train::detail {

/// Phases of a step, as calls on the current stream that do not wait.
struct StepBody {
  /// Computes the reduced gradients of all micro-batches and stores them in the leaves.
  std::function<StepValues(std::span<const Batch> batches)> compute;
  /// Updates the parameters. If `skip` is not zero, nothing changes.
  std::function<void(const StepValues& values, const Tensor& learning_rate, const Tensor& skip)> update;
  std::span<const Tensor> leaves;  ///< All parameters.
};

/// Captures and replays steps. Not thread-safe.
class StepGraph {
 public:
  /// Prepares for steps of this number of micro-batches. Captures nothing yet.
  explicit StepGraph(std::int64_t micro_batches);
  /// Returns true if a step can be replayed: a graph exists, and the seed of the generator has not changed since.
  [[nodiscard]] bool is_ready() const;
  /// Captures a step. Nothing runs, no random number counts as drawn, and no gradient remains. Throws NotSupported with
  /// the operator that cannot be captured.
  void capture(const StepBody& body, const device::Stream& stream);

  /// Sets micro-batch `m` of the next replay, as work of the current stream. The first call of each `m` must precede
  /// capture(): it creates the tensors that the graph reads. Throws InvalidArgument if shapes or dtypes change.
  void set_batch(std::int64_t m, const Batch& batch, const ParallelPlan& plan);
  /// Replays a step on `stream`, the current stream. Gradient norms above `most` are a spike; if omitted, the bound is
  /// that of the last replay, or if that one was skipped, this one is too. Random numbers count as drawn.
  void replay(double learning_rate, std::optional<double> most, const device::Stream& stream);

  /// Returns the values of the last replay (outcome_of), until the next one.
  [[nodiscard]] const Tensor& outcome() const { return outcome_; }
  /// Returns the reduced gradient of each leaf in the last replay.
  [[nodiscard]] std::span<const Tensor> gradients() const { return gradients_; }
  /// Returns the graph; empty before the first capture.
  [[nodiscard]] const memory::CapturedGraph& graph() const { return graph_; }

 private:
  void capture_body(const StepBody& body);

  std::vector<Batch> batches_;
  Tensor counter_;        // i64: calls of the generator since the capture began
  Tensor learning_rate_;  // f32
  Tensor max_;            // f64: norms above it are a spike
  ops::GeneratorState begin_;
  std::uint64_t calls_ = 0;  // generator calls per step
  Tensor outcome_;
  std::vector<Tensor> gradients_;
  memory::CapturedGraph graph_;
};

}  // namespace tessera::train::detail
