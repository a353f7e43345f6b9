#include "tessera/train/testing/step_ahead.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "tessera/autograd/autograd.h"
#include "tessera/nn/layers/mlp.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/nn/dropout.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/bad_step.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/detail/host_copies.h"

namespace tessera::train::testing {
namespace {

constexpr std::int64_t kWidth = 8;

struct Dropping : nn::Layer<Dropping> {
  nn::Mlp map;
  Dropping() : map(add("map", nn::Mlp({.width = kWidth, .hidden = 16, .bias = true}))) {}
  [[nodiscard]] Tensor loss(const Batch& batch) const {
    const Tensor off = ops::sub(ops::dropout(map(batch[0]), 0.2), 1);
    return ops::mean(ops::mul(off, off));
  }
};

Batch points(std::span<const std::uint64_t> samples) {
  const tensor::DeviceScope on_host(tensor::host_device());
  const Tensor from = ops::empty({std::ssize(samples), 2, kWidth});
  auto* x = from.data_as<float>();
  for (const std::uint64_t sample : samples) {
    const bool is_bad = sample == 17 || sample == 40;
    for (std::int64_t i = 0; i < 2 * kWidth; ++i)
      *x++ = is_bad ? NAN : static_cast<float>((sample * 37 + static_cast<std::uint64_t>(i) * 11) % 17) / 17 - 0.5F;
  }
  return {from};
}

void append(std::vector<float>& to, const Tensor& from) {
  const Tensor own = detail::on_host(from);
  // NaN is not equal to itself.
  std::transform(own.data_as<float>(), own.data_as<float>() + own.numel(), std::back_inserter(to),
                 [](float value) { return std::isnan(value) ? 12345.0F : value; });
}

}  // namespace

Task task_with_bad_samples() {
  return task("dropping", [] { return Dropping(); }, {.size = 48, .read = points});
}

Config task_config(bool is_graph, const std::string& on_nan) {
  Config config;
  config.model = {.family = std::string(kOwnFamily)};
  config.train.steps = 12;
  config.train.batch = 4;
  config.train.graph = is_graph;
  config.train.on_nan = on_nan;
  config.optimizer.learning_rate = 1e-2;
  return resolved(config, 1);
}

TaskResults results_of_task(bool is_graph, Ahead ahead) {
  const Config config = task_config(is_graph, "skip");
  Trainer trainer(config, task_with_bad_samples());
  TaskResults results;
  trainer.keep_bad_steps([&](const BadStep& step) {
    std::vector<float>& kept = results.bad_steps[step.report.step];
    for (const std::uint64_t sample : step.samples) kept.push_back(static_cast<float>(sample));
    for (const auto& [name, leaf] : step.parameters) {
      append(kept, leaf.detach());
      append(kept, autograd::grad(leaf));
    }
  });
  results.steps = seen_steps(trainer, config.train.steps, {}, ahead);
  results.checkpoint = trainer.checkpoint_state().texts.at("trainer");
  return results;
}

}  // namespace tessera::train::testing
