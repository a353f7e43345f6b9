// Training on a GPU: the losses of the host, the same bits eager and captured, the losses of one rank on every mesh of
// ranks that share the GPU, and runs that resume with the bits of one that was never stopped.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/device/faults.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/bad_step.h"
#include "tessera/train/detail/host_copies.h"
#include "tessera/train/detail/replica_check.h"
#include "tessera/train/make_model.h"
#include "tessera/train/testing/replays.h"
#include "tessera/train/testing/runs.h"
#include "tessera/train/testing/step_ahead.h"
#include "tessera/train/testing/told_runs.h"

namespace tessera::train {
namespace {

using testing::Curve;
using testing::on_mesh;
using testing::ReplayResults;

constexpr const char* kGpu = "cuda:0";

// Returns why no GPU can be used; empty if one can.
std::string why_no_gpu() {
  for (const device::AbsentKind& absent : device::Device::absent()) {
    if (absent.kind == "cuda") return absent.reason;
  }
  return "";
}

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string why = why_no_gpu();
    if (!why.empty()) GTEST_SKIP() << why;
  }
};

int ranks_of(const Config& config) { return config.mesh.dp * config.mesh.fsdp * config.mesh.tp; }

// Calls `body` on the ranks of the mesh, as threads. Their tensors are on the device.
void on_ranks(const Config& config, const char* device, const std::function<void()>& body) {
  simulate(ranks_of(config), [&] {
    const tensor::DeviceScope scope{std::string(device)};
    body();
  });
}

// Returns the curve of the first rank.
Curve curve(const Config& config, const char* device) {
  Curve first;
  on_ranks(config, device, [&] {
    Curve own = testing::run(config);
    if (current_place().rank == Rank(0)) first = std::move(own);
  });
  return first;
}

// Returns the results of every rank.
std::map<int, ReplayResults> results(const Config& config, const std::function<void(Trainer&)>& between = {}) {
  std::map<int, ReplayResults> all;
  std::mutex mutex;
  on_ranks(config, kGpu, [&] {
    ReplayResults own = testing::seen_run(config, between);
    const std::lock_guard lock(mutex);
    all[current_place().rank.value()] = std::move(own);
  });
  return all;
}

void expect_same_bits(const std::map<int, ReplayResults>& got, const std::map<int, ReplayResults>& want,
                      const Config& config) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [rank, seen] : want)
    EXPECT_EQ(testing::difference(got.at(rank), seen), "") << testing::mesh_name(config.mesh) << ", rank " << rank;
}

void expect_same_replayed(const Config& config, const std::function<void(Trainer&)>& between = {}) {
  const auto want = results(config, between);
  Config replayed = config;
  replayed.train.graph = true;
  expect_same_bits(results(replayed, between), want, config);
}

// Returns the largest relative difference of initial weights; those of the host and the GPU may differ in the last bit.
double weight_difference(const Curve& got, const Curve& want) {
  double most = got.weights.size() == want.weights.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < want.weights.size() && std::isfinite(most); ++i) {
    for (std::size_t j = 0; j < want.weights[i].size(); ++j)
      most = std::max(most, std::abs(static_cast<double>(got.weights[i][j]) - static_cast<double>(want.weights[i][j])));
  }
  return most;
}

void expect_near(Curve got, const Curve& want, double tolerance, const std::string& what) {
  EXPECT_LT(weight_difference(got, want), 1e-6) << what;
  got.weights = want.weights;
  EXPECT_EQ(testing::difference(got, want, tolerance), "") << what;
}

Config dropping(std::int64_t steps) {
  Config config = testing::small_config();
  config.train.steps = steps;
  config.model.dropout = 0.2;
  config.optimizer.clip = 0.5;
  return config;
}

TEST_F(OnGpu, FiftyStepsHaveTheLossesOfTheHost) {
  const Config config = testing::small_config();
  expect_near(curve(config, kGpu), curve(config, "host"), 1e-4, "adamw");
  Config momentum = config;
  momentum.optimizer.kind = "sgd";
  momentum.optimizer.learning_rate = 0.1;
  momentum.optimizer.momentum = 0.9;
  momentum.train.accumulate = 2;
  expect_near(curve(momentum, kGpu), curve(momentum, "host"), 1e-4, "sgd, accumulated");
}

TEST_F(OnGpu, Gpt2HasTheLossesOfTheHost) {
  Config config = testing::small_config();
  config.model.family = "gpt2";
  config.model.kv_heads = config.model.heads;
  config.train.steps = 10;
  expect_near(curve(config, kGpu), curve(config, "host"), 1e-4, "gpt2");
}

TEST_F(OnGpu, DropoutDrawsTheNumbersOfTheHost) {
  expect_near(curve(dropping(10), kGpu), curve(dropping(10), "host"), 1e-4, "dropout");
}

TEST_F(OnGpu, Bf16IsNearTheHost) {
  Config config = testing::small_config();
  config.train.steps = 10;
  config.train.dtype = "bf16";
  expect_near(curve(config, kGpu), curve(config, "host"), 2e-2, "bf16");
}

TEST_F(OnGpu, RunsRepeatTheirBits) {
  Config config = dropping(10);
  config.train.accumulate = 2;
  for (const char* dtype : {"f32", "bf16"}) {
    config.train.dtype = dtype;
    const auto want = results(config);
    for (int i = 0; i < 3; ++i) expect_same_bits(results(config), want, config);
  }
}

TEST_F(OnGpu, FiftyReplayedStepsHaveTheBitsOfEagerOnes) { expect_same_replayed(dropping(50)); }

TEST_F(OnGpu, ReplayedMicroBatchesAndDtypesHaveTheBitsOfEagerOnes) {
  for (const char* how : {"none", "full", "selective"}) {
    for (const char* dtype : {"f32", "bf16"}) {
      Config config = dropping(8);
      config.train.accumulate = 2;
      config.train.checkpointing = how;
      config.train.dtype = dtype;
      SCOPED_TRACE(fmt::format("{}, {}", how, dtype));
      expect_same_replayed(config);
    }
  }
}

TEST_F(OnGpu, DeterministicStepsRepeatTheirBits) {
  Config config = dropping(6);
  config.train.dtype = "bf16";
  config.train.deterministic = true;
  config.model.sequence = 64;
  config.model.heads = config.model.kv_heads = 4;  // a head width that cuDNN accepts
  const auto want = results(config);
  for (int i = 0; i < 19; ++i) expect_same_bits(results(config), want, config);
  expect_same_replayed(config);
}

TEST_F(OnGpu, StepsAheadHaveTheBitsOfStepsOneAfterTheOther) {
  for (const bool is_graph : {false, true}) {
    Config config = dropping(20);
    config.train.graph = is_graph;
    config.run.check_replicas = 0;
    const auto want = results(config);
    ReplayResults got;
    on_ranks(config, kGpu, [&] { got = testing::seen_run(config, {}, Ahead::kNextStep); });
    EXPECT_EQ(testing::difference(got, want.at(0)), "") << "graph " << is_graph;
  }
}

TEST_F(OnGpu, BadStepsAheadAreSkippedWithTheSameBits) {
  for (const bool is_graph : {false, true}) {
    const tensor::DeviceScope scope{std::string(kGpu)};
    const testing::TaskResults want = testing::results_of_task(is_graph, Ahead::kNone);
    const testing::TaskResults got = testing::results_of_task(is_graph, Ahead::kNextStep);
    EXPECT_EQ(std::ranges::count(want.steps.ends, StepEnd::kSkippedNan), 2);
    EXPECT_EQ(testing::difference(got.steps, want.steps), "") << is_graph;
    EXPECT_EQ(got.bad_steps, want.bad_steps);
    EXPECT_EQ(got.checkpoint, want.checkpoint);
  }
}

// The captured steps of a model in each dtype, with dropout and micro-batches.
TEST_F(OnGpu, ACapturedStepHasNoHostNode) {
  for (const char* family : {"llama", "gpt2"}) {
    for (const char* dtype : {"f32", "bf16"}) {
      Config config = dropping(3);
      config.model.family = family;
      config.model.kv_heads = config.model.heads;
      config.train.accumulate = 2;
      config.train.dtype = dtype;
      config.train.graph = true;
      const tensor::DeviceScope scope{std::string(kGpu)};
      Trainer trainer(resolved(config, 1), testing::synthetic_samples(config));
      for (int i = 0; i < 3; ++i) trainer.step();
      std::map<device::NodeKind, int> kinds;
      for (const device::NodeInfo& node : trainer.step_graph().nodes()) {
        ++kinds[node.kind];
        EXPECT_NE(node.kind, device::NodeKind::kHost) << node.label;
      }
      EXPECT_GT(kinds[device::NodeKind::kKernel], 20) << family << ", " << dtype;
      EXPECT_EQ(kinds[device::NodeKind::kOther], 0) << family << ", " << dtype;
    }
  }
}

// Returns the driver calls of a replayed step of a model with so many layers.
std::map<std::string, std::uint64_t> calls_of_replay(std::int64_t layers) {
  Config config = dropping(8);
  config.model.layers = layers;
  config.train.graph = true;
  const tensor::DeviceScope scope{std::string(kGpu)};
  Trainer trainer(resolved(config, 1), testing::synthetic_samples(config));
  for (int i = 0; i < 4; ++i) trainer.step();
  device::FaultInjector& faults = device::Device(kGpu).faults();
  faults.count_calls(true);
  trainer.step();
  std::map<std::string, std::uint64_t> calls;
  for (int kind = 0; kind < static_cast<int>(device::DriverCall::kCount); ++kind) {
    const auto call = static_cast<device::DriverCall>(kind);
    calls[std::string(device::to_string(call))] = faults.calls(call);
  }
  faults.count_calls(false);
  return calls;
}

TEST_F(OnGpu, AReplayCallsTheDriverAsOftenForAnyNumberOfOperators) {
  const auto calls = calls_of_replay(2);
  EXPECT_EQ(calls_of_replay(6), calls);
  EXPECT_EQ(calls.at("graph launch"), 1U);
  EXPECT_EQ(calls.at("launch"), 0U) << "no kernel is launched by itself";
}

TEST_F(OnGpu, SkippedStepsChangeNothing) {
  Config config = dropping(12);
  config.train.on_nan = "skip";
  // Steps 4 and 9 have only NaN; the corrupted values are restored after them.
  Tensor kept;
  const auto between = [&](Trainer& trainer) {
    const Tensor head = trainer.model().parameters().back().detach();
    const std::int64_t step = trainer.step_count();
    if (step == 3 || step == 8) {
      kept = ops::clone(head);
      ops::fill_(head, NAN);
    } else if (kept) {
      ops::copy_(head, kept);
      kept = {};
    }
  };
  expect_same_replayed(config, between);
  const std::map<int, ReplayResults> seen = results(config, between);
  for (std::size_t i = 0; i < seen.at(0).ends.size(); ++i)
    EXPECT_EQ(seen.at(0).ends[i] == StepEnd::kSkippedNan, i == 3 || i == 8) << "step " << i + 1;
}

TEST_F(OnGpu, ABadStepIsWrittenWithItsGradients) {
  const testing::TemporaryDirectory directory;
  Config config = testing::small_config();
  config.train.steps = 3;
  const tensor::DeviceScope scope{std::string(kGpu)};
  Trainer trainer(resolved(config, 1), testing::synthetic_samples(config));
  std::string written;
  trainer.keep_bad_steps([&](const BadStep& step) { written = write_bad_step(directory.path().string(), 0, step); });
  trainer.step();
  const Tensor head = trainer.model().parameters().back().detach();
  ops::fill_(head, NAN);
  EXPECT_THROW((void)trainer.step(), TrainingStopped);
  EXPECT_TRUE(std::filesystem::exists(written)) << written;
}

TEST_F(OnGpu, RanksThatShareTheGpuHaveTheLossesOfOne) {
  const Config config = testing::small_config();
  const Curve want = curve(config, kGpu);
  for (const auto& [dp, fsdp, tp] :
       std::vector<std::array<int, 3>>{{2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {2, 1, 2}, {1, 2, 2}}) {
    const Config mesh = on_mesh(config, dp, fsdp, tp);
    expect_near(curve(mesh, kGpu), want, 1e-5, testing::mesh_name(mesh.mesh));
  }
}

TEST_F(OnGpu, RanksThatShareTheGpuCannotReplay) {
  EXPECT_THROW(expect_same_replayed(on_mesh(dropping(8), 2, 1, 1)), NotSupported);
}

TEST_F(OnGpu, ReplicasAreCompared) {
  const Config config = on_mesh(testing::small_config(), 2, 1, 1);
  EXPECT_THROW(on_ranks(config, kGpu,
                        [&] {
                          Trainer trainer(resolved(config, 2), testing::synthetic_samples(config));
                          if (current_place().rank == Rank(1))
                            ops::fill_(trainer.model().parameters().back().detach().local(), 1);
                          detail::check_replicas(named_leaves(trainer.model()), 1);
                        }),
               MismatchError);
}

TEST_F(OnGpu, EvaluationAndSamplesAreThoseOfTheHost) {
  const Config config = testing::small_config();
  std::map<std::string, double> losses;
  std::map<std::string, std::vector<std::uint32_t>> samples;
  for (const char* device : {"host", kGpu}) {
    on_ranks(config, device, [&] {
      Trainer trainer(config, testing::synthetic_samples(config));
      for (int i = 0; i < 5; ++i) trainer.step();
      losses[device] = trainer.evaluate(testing::synthetic_samples(config), 10);
      samples[device] = trainer.sample({1, 2, 3}, 24, 0, 7);
    });
  }
  EXPECT_NEAR(losses.at(kGpu), losses.at("host"), 1e-4 * losses.at("host"));
  EXPECT_EQ(samples.at(kGpu), samples.at("host"));
}

class RunOnGpu : public testing::ToldRuns {
 protected:
  void SetUp() override {
    const std::string why = why_no_gpu();
    if (!why.empty()) GTEST_SKIP() << why;
    ToldRuns::SetUp();
  }
  [[nodiscard]] Config gpu_config(const char* name) const {
    Config config = ToldRuns::config(name);
    config.run.device = "cuda";
    return config;
  }
};

TEST_F(RunOnGpu, GoesOnWithTheBitsOfARunThatNeverStopped) {
  EXPECT_EQ(run_and(gpu_config("whole")).end, RunEnd::kDone);
  for (const bool is_graph : {false, true}) {
    const char* name = is_graph ? "replayed" : "eager";
    Config stopped = gpu_config(name);
    stopped.train.graph = is_graph;
    EXPECT_EQ(run_and(stopped, "step 5/").end, RunEnd::kInterrupted);
    EXPECT_EQ(run_and(stopped).resumed_from, std::vector<std::int64_t>{5});
    EXPECT_EQ(testing::difference(testing::left_by(path(name)), testing::left_by(path("whole"))), "") << name;
  }
}

// Step 4 is enqueued when step 3 is printed, and is the last one of the stopped run.
TEST_F(RunOnGpu, ARequestToEndIsMetAfterTheStepAhead) {
  EXPECT_EQ(run_and(gpu_config("whole")).end, RunEnd::kDone);
  EXPECT_EQ(run_and(gpu_config("run"), "step 3/").end, RunEnd::kInterrupted);
  EXPECT_EQ(run_and(gpu_config("run")).resumed_from, std::vector<std::int64_t>{4});
  EXPECT_EQ(testing::difference(testing::left_by(path("run")), testing::left_by(path("whole"))), "");
}

TEST_F(RunOnGpu, TakesTheGpuByItselfAndSaysSo) {
  EXPECT_EQ(run_and(config("auto")).end, RunEnd::kDone);
  EXPECT_TRUE(testing::contains(said, "cuda:0")) << said;
  EXPECT_TRUE(testing::contains(said, " TFLOP/s in f32 products\n")) << said;
  EXPECT_TRUE(testing::contains(said, "  MFU ")) << said;
}

TEST_F(RunOnGpu, DumpsAndProfilesAStep) {
  Config config = gpu_config("run");
  config.run.dump_step = 3;
  config.run.profile_steps = "4..5";
  EXPECT_EQ(run_and(config).end, RunEnd::kDone);
  EXPECT_TRUE(std::filesystem::exists(path() / "dump-3" / "rank-0.safetensors"));
}

}  // namespace
}  // namespace tessera::train
