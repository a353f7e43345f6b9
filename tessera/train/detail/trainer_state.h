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
#include "tessera/train/exposed.h"
#include "tessera/train/memory_book.h"
#include "tessera/train/model.h"
#include "tessera/train/optimizer.h"
#include "tessera/train/plan.h"
#include "tessera/train/trainer.h"

namespace tessera::train {

namespace detail {
/// Tokens that the model is given, and those that it is to say.
struct Batch {
  Tensor tokens;
  Tensor targets;
};
}  // namespace detail

/// Of one rank.
struct Trainer::State {
  State(const Config& given, BatchSource source);

  // Losses and gradients of the step's micro-batches, settled; the loss.
  double run_batches();
  detail::Batch next_batch(std::uint64_t k);
  void settle_gradients();
  // Hands a step that is not taken to who asked for such.
  void keep(const StepReport& report) const;
  // Whether the step is not to be taken, by policy; throws where that says stop.
  StepEnd judged(const StepReport& report);
  void drop_gradients() {
    for (const Tensor& leaf : leaves) autograd::set_grad(leaf, {});
  }
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
  std::function<void(const StepReport&)> before_update;
};

}  // namespace tessera::train
