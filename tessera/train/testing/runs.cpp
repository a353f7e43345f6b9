#include "tessera/train/testing/runs.h"

#include <fmt/format.h>

#include <cmath>

#include "tessera/base/rank.h"
#include "tessera/comm/world.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/shard/distribute.h"
#include "tessera/train/detail/host_copies.h"
#include "tessera/train/make_model.h"

namespace tessera::train::testing {

Config small_config() {
  Config config;
  config.model = {.preset = "tiny",
                  .width = 32,
                  .layers = 2,
                  .heads = 8,
                  .kv_heads = 4,
                  .hidden = 48,
                  .vocabulary = 32,
                  .sequence = 8};
  config.mesh.dp = 1;
  config.train.steps = 50;
  config.train.batch = 4;
  config.optimizer.learning_rate = 3e-3;
  return config;
}

Config bench_config(bool is_brief) {
  Config config = small_config();
  config.model = {.preset = "tiny"};
  if (is_brief) config.model = {.preset = "tiny", .width = 32, .layers = 2, .sequence = 32};
  config.train.batch = is_brief ? 4 : 8;
  config.train.steps = 1'000'000;
  return resolved(config, 1);
}

Config on_mesh(Config config, int dp, int fsdp, int tp) {
  config.mesh.dp = dp;
  config.mesh.fsdp = fsdp;
  config.mesh.tp = tp;
  return config;
}

std::string mesh_name(const MeshConfig& mesh) {
  std::string out;
  const auto add = [&](const char* name, int size) {
    if (size > 1) out += fmt::format("{}{} {}", out.empty() ? "" : " x ", name, size);
  };
  add("dp", mesh.dp);
  add("fsdp", mesh.fsdp);
  add("tp", mesh.tp);
  return out.empty() ? "1 rank" : out;
}

SampleReader synthetic_samples(const Config& config) {
  return [vocabulary = static_cast<std::uint64_t>(config.model.vocabulary)](std::uint64_t number,
                                                                            std::span<std::int32_t> tokens) {
    std::uint64_t token = number * 7 % vocabulary;
    for (std::int32_t& each : tokens) {
      each = static_cast<std::int32_t>(token);
      token = (token * 5 + 1 + number % 2) % vocabulary;
    }
  };
}

Curve run(const Config& config) {
  Trainer trainer(config, synthetic_samples(config));
  Curve curve;
  for (const Tensor& leaf : trainer.model().parameters()) {
    const Tensor whole = detail::on_host(ops::contiguous(shard::gather(leaf.detach())));
    if (current_place().rank != Rank(0)) continue;
    const float* data = whole.data_as<float>();
    curve.weights.emplace_back(data, data + whole.numel());
  }
  while (trainer.step_count() < config.train.steps) {
    const StepReport report = trainer.step();
    curve.losses.push_back(report.loss);
    curve.norms.push_back(report.grad_norm);
  }
  return curve;
}

Curve run_on_ranks(const Config& config) {
  Curve first;
  simulate(config.mesh.dp * config.mesh.fsdp * config.mesh.tp, [&] {
    Curve curve = run(config);
    if (current_place().rank == Rank(0)) first = std::move(curve);
  });
  return first;
}

std::string difference(const Curve& got, const Curve& want, double tolerance) {
  if (got.weights != want.weights) return "initial weights differ";
  if (got.losses.size() != want.losses.size()) return fmt::format("{} steps were taken", got.losses.size());
  for (std::size_t i = 0; i < want.losses.size(); ++i) {
    const auto differs = [&](const char* what, double a, double b) {
      if (std::abs(a - b) <= tolerance * std::abs(b)) return std::string();
      return fmt::format("step {}: {} {:.9g} instead of {:.9g}, off by {:.2g}", i + 1, what, a, b,
                         std::abs(a - b) / std::abs(b));
    };
    std::string wrong = differs("loss", got.losses[i], want.losses[i]);
    if (wrong.empty()) wrong = differs("gradient norm", got.norms[i], want.norms[i]);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace tessera::train::testing
