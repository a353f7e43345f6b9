// Steps of the preset `tiny`: fraction of the rate of a core, scaling to four ranks on two cores, host cost of an
// operator on a mesh, and memory. Every rank computes on one thread.
#include <chrono>
#include <cmath>

#include "tessera/autograd/autograd.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/bench.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/testing/direct_sgemm.h"
#include "tessera/ops/update/update.h"
#include "tessera/shard/gradients.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/scopes.h"
#include "tessera/train/detail/replica_check.h"
#include "tessera/train/make_model.h"
#include "tessera/train/predict.h"
#include "tessera/train/testing/cost_of_asking.h"
#include "tessera/train/testing/runs.h"

namespace tessera::train {
namespace {

using testing::cost_of_asking;

using testing::on_mesh;
using Clock = std::chrono::steady_clock;

constexpr int kWarm = 2;
constexpr int kTimed = 4;

// Returns the tokens/s over all ranks of some steps of a separate run.
double tokens_per_second(const Config& config) {
  double rate = 0;
  simulate(config.mesh.dp * config.mesh.fsdp * config.mesh.tp, [&] {
    ops::detail::set_thread_budget(1);
    Trainer trainer(config, testing::synthetic_samples(config));
    for (int i = 0; i < kWarm; ++i) trainer.step();
    double seconds = 0;
    std::int64_t tokens = 0;
    for (int i = 0; i < kTimed; ++i) {
      const StepReport report = trainer.step();
      seconds += report.seconds;
      tokens += report.tokens;
    }
    if (current_place().rank == Rank(0)) rate = static_cast<double>(tokens) / seconds;
  });
  return rate;
}

double sgemm_gflops() {
  constexpr int kSize = 512;
  static const std::vector<float> a(kSize * kSize, 0.5F);
  static std::vector<float> out(kSize * kSize);
  const auto start = Clock::now();
  const ops::testing::DirectSgemm product{
      .m = kSize, .n = kSize, .k = kSize, .a = a.data(), .b = a.data(), .c = out.data()};
  for (int i = 0; i < 4; ++i) product.run();
  return 4 * 2e-9 * std::pow(kSize, 3) / std::chrono::duration<double>(Clock::now() - start).count();
}

TESSERA_BENCH(steps) {
  const Config config = testing::bench_config(context.is_brief());
  context.measure(
      {.name = "step_tiny_1rank",
       .unit = "GFLOP/s",
       .ours = [&]() -> double { return 1e-9 * flops_per_token(config.model).causal * tokens_per_second(config); },
       .reference_name = "direct sgemm of 512 x 512, one thread",
       .reference = [] { return sgemm_gflops(); },
       .must_ratio = 0.5});
  context.measure({.name = "step_dp2xtp2",
                   .unit = "tokens/s",
                   .ours = [&]() -> double { return tokens_per_second(on_mesh(config, 2, 1, 2)); },
                   .reference_name = "twice step_tiny_1rank",
                   .reference = [&]() -> double { return 2 * tokens_per_second(config); },
                   .must_ratio = 0.75});
}

// Cost of a step on the enqueueing thread, without kernels and transfers.
struct HostCost {
  double operators = 0;        // per step
  double redistributions = 0;  // launches per step
  double per_operator = 0;     // us
  double per_redistribution = 0;
};

double redistribution_cost(const ParallelPlan& plan) {
  constexpr int kCalls = 50;
  const Tensor x =
      ops::zeros({plan.rows(), 128, 128},
                 {.layout = plan.table().layout_of(plan.mesh(), {"batch", "sequence", "embed"}, "activations")});
  const layout::Layout inside = plan.table().layout_of(plan.mesh(), {"batch", "", "embed"}, "activations");
  const auto ask = [&] {
    for (int i = 0; i < kCalls; ++i) bench::do_not_optimize(shard::redistribute(x, inside));
  };
  ask();
  return cost_of_asking(ask) / kCalls;
}

// Enqueues a step and does not wait.
void ask_for_step(const nn::LanguageModel& model, nn::Optimizer& optimizer, const Tensor& tokens, double count) {
  autograd::backward(model.loss(tokens, tokens, count));
  const std::vector<Tensor> leaves = model.module().parameters();
  shard::reduce_gradients(leaves);
  std::vector<Tensor> gradients;
  for (const Tensor& leaf : leaves) gradients.push_back(autograd::grad(leaf));
  optimizer.step({.scalars = {.clip_factor = ops::grad_norm(gradients, 1).factor}});
}

// Enqueues `in_a_row` steps before any of them runs: with more than one, kernels evict the caches less often.
HostCost host_cost(const Config& config, int in_a_row) {
  HostCost cost;
  simulate(4, [&] {
    ops::detail::set_thread_budget(1);
    const ParallelPlan plan = ParallelPlan::create(config, 4);
    ops::manual_seed(1);
    const auto exposed = std::make_shared<shard::ExposedTime>();
    const auto model = make_model(config, plan, exposed);
    const auto optimizer = make_optimizer(config.optimizer, model->module());
    const Tensor tokens = ops::randint(0, config.model.vocabulary, {plan.rows(), config.model.sequence},
                                       {.dtype = DType::kI32, .layout = plan.batch_layout(2)});
    const double count = static_cast<double>(config.train.batch * config.model.sequence);
    double spent = 0;
    shard::ShardCounts before;
    for (int i = 0; i < kWarm + kTimed; ++i) {
      if (i == kWarm) before = shard::shard_counts();
      const auto ask = [&](int steps) {
        for (int step = 0; step < steps; ++step) ask_for_step(*model, *optimizer, tokens, count);
      };
      if (i >= kWarm) {
        spent += cost_of_asking([&] { ask(in_a_row); });
      } else {
        ask(1);  // ranks meet in groups that are created now
        device::Device::get("host").synchronize();
      }
      (void)exposed->take_seconds();
    }
    const shard::ShardCounts after = shard::shard_counts();
    const double each = redistribution_cost(plan);
    if (current_place().rank != Rank(0)) return;
    const double steps = kTimed * in_a_row;
    cost.operators = static_cast<double>(after.calls - before.calls) / steps;
    cost.redistributions = static_cast<double>(after.collectives - before.collectives) / steps;
    cost.per_redistribution = each;
    cost.per_operator = (spent / steps - each * cost.redistributions) / cost.operators;
  });
  return cost;
}

TESSERA_BENCH(host_cost) {
  const std::string row = "sharded_cpu_per_op";
  if (!context.wants(row) && !context.wants(row + "_8_steps") && !context.wants("sharded_cpu_per_redistribution"))
    return;
  const Config config = on_mesh(testing::bench_config(context.is_brief()), 2, 1, 2);
  const HostCost once = host_cost(config, 1);
  const std::string counts = std::to_string(static_cast<int>(once.operators)) + " operators and " +
                             std::to_string(static_cast<int>(once.redistributions)) + " launches a step";
  context.measure({.name = row,
                   .unit = "us",
                   .ours = [&]() -> double { return host_cost(config, 1).per_operator; },
                   .reference_name = counts,
                   .must = 0.7});
  context.measure({.name = row + "_8_steps",
                   .unit = "us",
                   .ours = [&]() -> double { return host_cost(config, 8).per_operator; },
                   .reference_name = "asked for 8 steps in a row"});
  context.measure({.name = "sharded_cpu_per_redistribution",
                   .unit = "us",
                   .ours = [&]() -> double { return host_cost(config, 1).per_redistribution; },
                   .reference_name = "the thread that asks alone",
                   .must = 3});
}

// Returns the milliseconds of a check of all replicas, on a rank of dp 2.
double replica_check_time(const Config& config) {
  constexpr int kChecks = 10;
  double milliseconds = 0;
  simulate(2, [&] {
    ops::detail::set_thread_budget(1);
    const Trainer trainer(config, testing::synthetic_samples(config));
    detail::check_replicas(named_leaves(trainer.model()), 0);
    const auto start = Clock::now();
    for (int i = 0; i < kChecks; ++i) detail::check_replicas(named_leaves(trainer.model()), i);
    const std::chrono::duration<double, std::milli> spent = Clock::now() - start;
    if (current_place().rank == Rank(0)) milliseconds = spent.count() / kChecks;
  });
  return milliseconds;
}

TESSERA_BENCH(replicas) {
  const Config config = on_mesh(testing::bench_config(context.is_brief()), 2, 1, 1);
  context.measure({.name = "check_replicas_dp2",
                   .unit = "ms",
                   .ours = [&]() -> double { return replica_check_time(config); },
                   .reference_name = "one in 1000 steps by default"});
}

double nbytes_of(const std::vector<OwnedBytes>& bytes, const char* owner) {
  for (const OwnedBytes& each : bytes) {
    if (each.owner == owner) return static_cast<double>(each.nbytes);
  }
  return 0;
}

// Memory of the first rank after two steps.
struct Memory {
  std::vector<OwnedBytes> peak;
  std::vector<OwnedBytes> predicted;
  double parameters = 0;
};
Memory memory_of(const Config& config) {
  Memory out;
  simulate(config.mesh.dp * config.mesh.fsdp * config.mesh.tp, [&] {
    Trainer trainer(config, testing::synthetic_samples(config));
    for (int i = 0; i < 2; ++i) trainer.step();
    if (current_place().rank != Rank(0)) return;
    out = {trainer.memory_peak(), trainer.memory_predicted(), static_cast<double>(trainer.parameter_count())};
  });
  return out;
}

TESSERA_BENCH(memory) {
  const Config config = testing::bench_config(context.is_brief());
  const auto width = static_cast<double>(config.model.width);
  const double layer = 4 * (2 * width + 3 * width * width + 3 * width * static_cast<double>(config.model.hidden));
  if (context.wants("fsdp_memory")) {
    const Config sharded = on_mesh(config, 1, 4, 1);
    const double all = 4 * 4 * memory_of(sharded).parameters;
    context.measure({.name = "fsdp_memory",
                     .unit = "KiB",
                     .ours = [&]() -> double {
                       const std::vector<OwnedBytes> peak = memory_of(sharded).peak;
                       return (nbytes_of(peak, "parameters") + nbytes_of(peak, "gradients") +
                               nbytes_of(peak, "optimizer") + nbytes_of(peak, "gathered")) /
                              1024;
                     },
                     .reference_name = "bound: 1.15 x total / 4 + two layers gathered",
                     .must = (1.15 * all / 4 + 2 * layer) / 1024});
  }
  for (const Config& each : {config, on_mesh(config, 2, 1, 2), on_mesh(config, 1, 4, 1)}) {
    context.measure({.name = "peak_memory_" + std::string(each.mesh.fsdp > 1 ? "fsdp4"
                                                          : each.mesh.tp > 1 ? "dp2xtp2"
                                                                             : "1rank"),
                     .unit = "%",
                     .ours = [&]() -> double {
                       const Memory memory = memory_of(each);
                       return 100 *
                              std::abs(nbytes_of(memory.predicted, "total") / nbytes_of(memory.peak, "total") - 1);
                     },
                     .reference_name = "off what was predicted",
                     .must = 1});
  }
}

}  // namespace
}  // namespace tessera::train
