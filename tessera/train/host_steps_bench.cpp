// The suite host_train: complete training steps on the host, of the presets `tiny` (batch 16) and `124m` (batch 2,
// tied). Each row is the time of a step. bench/peers/host_train.py compares step_tiny, step_124m and step_124m_bf16
// with PyTorch.
//
// step_ rows: one rank on two threads. The reference is the time that the floating-point operations of the step (causal
// attention counted half) take at the rate of a direct sgemm of 1024 on each thread. dp2_ rows: two ranks with one
// thread each against one rank with two threads, at the same global batch.
#include <vector>

#include "tessera/base/testing/bench.h"
#include "tessera/ops/testing/direct_sgemm.h"
#include "tessera/train/predict.h"
#include "tessera/train/testing/host_suite.h"
#include "tessera/train/testing/runs.h"
#include "tessera/train/testing/stepping_ranks.h"

namespace tessera::train {
namespace {

using testing::kHostThreads;
using testing::on_mesh;
using testing::SteppingRanks;
using testing::wants_or_lists;

// A model of the rows.
struct Subject {
  std::string name;
  Config config;
  int steps;  // per sample
};

Subject tiny(bool is_brief) {
  Config config = testing::bench_config(is_brief);
  if (!is_brief) config.train.batch = 16;
  return {"tiny", config, is_brief ? 1 : 4};
}

Subject large(bool is_brief) {
  Config config = testing::bench_config(is_brief);
  if (!is_brief) config.model = {.preset = "124m"};
  config.model.tied = true;
  config.train.batch = 2;
  config.optimizer.learning_rate = 3e-4;
  return {"124m", resolved(config, 1), 1};
}

double flops_per_step(const Config& config) {
  return flops_per_token(config.model).causal * static_cast<double>(config.train.batch * config.model.sequence);
}

void measure_step(bench::Context& context, const Subject& subject, std::optional<double> must_ratio) {
  const std::string name = "step_" + subject.name;
  if (!wants_or_lists(context, name)) return;
  SteppingRanks ranks(subject.config, kHostThreads);
  const bool is_brief = context.is_brief();
  context.measure({.name = name,
                   .unit = "ms",
                   .ours = [&]() -> double { return ranks.milliseconds_per_step(subject.steps); },
                   .reference_name = "its FLOPs by sgemm",
                   .reference = [&]() -> double {
                     return 1e3 * flops_per_step(subject.config) /
                            ops::testing::direct_sgemm_rate(kHostThreads, is_brief ? 64 : 1024);
                   },
                   .must_ratio = must_ratio});
}

void measure_bf16(bench::Context& context, const Subject& subject) {
  const std::string name = "step_" + subject.name + "_bf16";
  if (!wants_or_lists(context, name)) return;
  Config config = subject.config;
  config.train.dtype = "bf16";
  SteppingRanks bf16(config, kHostThreads);
  SteppingRanks f32(subject.config, kHostThreads);
  context.measure({.name = name,
                   .unit = "ms",
                   .ours = [&]() -> double { return bf16.milliseconds_per_step(subject.steps); },
                   .reference_name = "ours in f32",
                   .reference = [&]() -> double { return f32.milliseconds_per_step(subject.steps); },
                   .must_ratio = 1});
}

void measure_data_parallel(bench::Context& context, const Subject& subject) {
  const std::string name = "dp2_" + subject.name;
  if (!wants_or_lists(context, name)) return;
  SteppingRanks two(on_mesh(subject.config, 2, 1, 1), 1);
  SteppingRanks one(subject.config, 2);
  context.measure({.name = name,
                   .unit = "ms",
                   .ours = [&]() -> double { return two.milliseconds_per_step(subject.steps); },
                   .reference_name = "1 rank, 2 threads",
                   .reference = [&]() -> double { return one.milliseconds_per_step(subject.steps); },
                   .must_ratio = 0.95});
}

TESSERA_BENCH(host_steps) {
  const bool is_brief = context.is_brief();
  measure_step(context, tiny(is_brief), std::nullopt);
  measure_data_parallel(context, tiny(is_brief));
  measure_step(context, large(is_brief), 0.85);
  measure_bf16(context, large(is_brief));
  measure_data_parallel(context, large(is_brief));
}

}  // namespace
}  // namespace tessera::train
