// A whole training step as one graph: forward, backward, collectives, the norm, the decision whether the step is taken,
// and the optimizer, captured once and replayed.
//
//   host                               device memory                    graph
//   batches, learning rate,   ------>  tokens, targets, numbers  ---->  losses and gradients of all micro-batches
//   random counter, bound                                               skip = loss or norm not finite, or a spike
//                             <------  loss, norm, skip, gradients <--  optimizer, which changes nothing where skip is
//
// What changes from step to step is read when the graph runs, so that no decision of the host stands inside a replay. A
// replay draws the random numbers that the same step would have drawn uncaptured, since it is told how far this rank's
// generator has moved since the capture. Parameters and the optimizer's state are where they were: who writes them in
// place between steps need not tell. Memory of the step is planned in the capture, in a pool of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tessera/device/stream.h"
#include "tessera/memory/graph_capture.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/update/update.h"
#include "tessera/tensor/tensor.h"
#include "tessera/train/config.h"
#include "tessera/train/detail/batch.h"
#include "tessera/train/plan.h"

namespace tessera::train::detail {

/// What a step comes to before it is taken: numbers of one element, whole on this rank.
struct StepValues {
  Tensor loss;         ///< mean over the tokens of all ranks
  ops::GradNorm norm;  ///< of all gradients, and what to multiply them with
};

/// The parts of a step, as calls on the current stream that wait for nothing.
struct StepBody {
  /// Leaves the gradients of all micro-batches settled at their leaves.
  std::function<StepValues(std::span<const Batch> batches)> compute;
  /// Updates the parameters. `skip`, where not zero, says that nothing is to change.
  std::function<void(const StepValues& values, const Tensor& learning_rate, const Tensor& skip)> update;
  std::span<const Tensor> leaves;  ///< all parameters
};

/// See the head of this file. For one thread.
class StepGraph {
 public:
  /// For steps of this plan; captures nothing yet.
  StepGraph(const Config& config, const Plan& plan);
  /// Whether a step can be replayed: there is a graph, and this rank's generator has the seed that it had then.
  [[nodiscard]] bool is_ready() const;
  /// Captures a step. Nothing of it runs, no random number counts as drawn, and no gradient is left behind.
  /// NotSupported, with the operator's name: it does what cannot be captured.
  void capture(const StepBody& body, const device::Stream& stream);

  /// Gives micro-batch `m` of the next replay, as rows of sequence + 1 tokens. The last replay has ended.
  void set_batch(std::int64_t m, std::span<const std::int32_t> rows);
  /// Replays a step; gradient norms above `most` are a spike. Random numbers count as drawn.
  void replay(double learning_rate, double most, const device::Stream& stream);

  /// Of the last replay, which has ended.
  [[nodiscard]] double loss() const;
  /// Likewise: norm of the gradients before clipping.
  [[nodiscard]] double grad_norm() const;
  /// Likewise: whether parameters and the optimizer's state were left as they were.
  [[nodiscard]] bool is_skipped() const;
  /// Likewise: of each leaf, settled.
  [[nodiscard]] std::span<const Tensor> gradients() const { return gradients_; }
  /// The graph; none before the first capture.
  [[nodiscard]] const memory::CapturedGraph& graph() const { return graph_; }

 private:
  [[nodiscard]] Tensor skip_flag() const;
  void capture_body(const StepBody& body);

  Plan plan_;
  std::vector<Batch> batches_;
  Tensor counter_;        // i64: calls of the generator since the capture began
  Tensor learning_rate_;  // f32
  Tensor most_;           // f64: norms above are a spike
  ops::GeneratorState begin_;
  std::uint64_t calls_ = 0;  // of the generator in one step
  StepValues values_;
  Tensor skip_;
  std::vector<Tensor> gradients_;
  memory::CapturedGraph graph_;
};

}  // namespace tessera::train::detail
