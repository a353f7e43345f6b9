// Captured and replayed steps: bitwise equal to eager ones, for any actions between them, and the cases that cannot be
// captured.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <vector>

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/hooks.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/shard/distribute.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/bad_step.h"
#include "tessera/train/detail/step_graph.h"
#include "tessera/train/make_model.h"
#include "tessera/train/testing/replays.h"
#include "tessera/train/testing/runs.h"

namespace tessera::train {
namespace {

using testing::difference;
using testing::on_mesh;
using testing::own_weights;
using testing::ReplayResults;
using testing::synthetic_samples;

int ranks_of(const Config& config) { return config.mesh.dp * config.mesh.fsdp * config.mesh.tp; }

Config dropping(std::int64_t steps) {
  Config config = testing::small_config();
  config.train.steps = steps;
  config.model.dropout = 0.2;
  config.optimizer.clip = 0.5;
  return config;
}
Config replayed(Config config) {
  config.train.graph = true;
  return config;
}

// Returns results by rank. Calls `between` after each step.
std::map<int, ReplayResults> run(const Config& config, const std::function<void(Trainer&)>& between = {}) {
  std::map<int, ReplayResults> all;
  std::mutex mutex;
  simulate(ranks_of(config), [&] {
    ReplayResults seen = testing::seen_run(config, between);
    const std::lock_guard lock(mutex);
    all[current_place().rank.value()] = std::move(seen);
  });
  return all;
}

void expect_same(const Config& config, const std::function<void(Trainer&)>& between = {}) {
  const std::map<int, ReplayResults> want = run(config, between);
  const std::map<int, ReplayResults> got = run(replayed(config), between);
  ASSERT_EQ(want.size(), static_cast<std::size_t>(ranks_of(config)));
  for (const auto& [rank, seen] : want) {
    EXPECT_EQ(difference(got.at(rank), seen), "") << testing::mesh_name(config.mesh) << ", rank " << rank;
  }
}

TEST(StepGraph, FiftyReplayedStepsWithDropoutHaveTheSameBits) {
  expect_same(dropping(50));
  for (const auto& [dp, fsdp, tp] : std::vector<std::array<int, 3>>{{2, 1, 1}, {1, 2, 1}, {1, 1, 2}}) {
    expect_same(on_mesh(dropping(50), dp, fsdp, tp));
  }
  expect_same(on_mesh(dropping(8), 1, 2, 2));
}

TEST(StepGraph, MicroBatchesCheckpointsAndDtypesHaveTheSameBits) {
  for (const char* how : {"none", "full", "selective"}) {
    for (const char* dtype : {"f32", "bf16"}) {
      Config config = dropping(8);
      config.train.accumulate = 2;
      config.train.checkpointing = how;
      config.train.dtype = dtype;
      expect_same(config);
      expect_same(on_mesh(config, 1, 2, 1));
    }
  }
}

TEST(StepGraph, OtherOptimizersAndModelsHaveTheSameBits) {
  Config momentum = dropping(8);
  momentum.optimizer.kind = "sgd";
  momentum.optimizer.momentum = 0.9;
  momentum.optimizer.clip = 0;
  Config tied = dropping(8);
  tied.model.tied = true;
  tied.schedule.warmup = 4;
  Config plain = dropping(8);
  plain.mesh.prefetch = false;
  plain.mesh.sequence_parallel = false;
  expect_same(on_mesh(momentum, 1, 2, 1));
  expect_same(on_mesh(tied, 1, 2, 1));
  expect_same(on_mesh(plain, 1, 2, 2));
}

// Skipped steps change neither parameters nor optimizer state nor its step count: later steps would show it.
TEST(StepGraph, SkippedStepsLeaveTheSameBits) {
  for (const Config& each : {dropping(12), on_mesh(dropping(12), 1, 1, 2)}) {
    Config config = each;
    config.train.on_nan = "skip";
    // Steps 4 and 9 have only NaN; the corrupted values are restored after them.
    const auto between = [&](Trainer& trainer) {
      thread_local Tensor kept;
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
    expect_same(config, between);
    for (const auto& [rank, seen] : run(replayed(config), between)) {
      for (std::size_t i = 0; i < seen.ends.size(); ++i) {
        EXPECT_EQ(seen.ends[i] == StepEnd::kSkippedNan, i == 3 || i == 8) << "step " << i + 1;
      }
    }
  }
}

// For any values of a step.
TEST(StepGraph, DecidesInDeviceMemoryWhetherAStepIsTaken) {
  simulate(1, [] {
    detail::StepGraph graph(1);
    const device::Stream& stream = tensor::current_stream(device::Device::get("host"));
    const Tensor loss = ops::zeros({});
    const Tensor norm = ops::zeros({});
    const Tensor taken = ops::zeros({});
    graph.capture({.compute = [&](std::span<const Batch>) -> detail::StepValues {
                     return {ops::mul(loss, 1), {ops::mul(norm, 1), {}}};
                   },
                   .update =
                       [&](const detail::StepValues&, const Tensor& rate, const Tensor& skip) {
                         const Tensor ones[] = {ops::ones({})};
                         ops::sgd_({&taken, 1}, ones, {}, {.learning_rate = rate, .skip = skip});
                       },
                   .leaves = {}},
                  stream);
    const detail::StepReadings readings;
    const auto skips = [&](double loss_value, double norm_value, std::optional<double> most) {
      ops::fill_(loss, loss_value);
      ops::fill_(norm, norm_value);
      ops::fill_(taken, 0);
      graph.replay(0.5, most, stream);
      readings.read(graph.outcome());
      stream.synchronize();
      EXPECT_EQ(ops::item(taken).as_double(), readings.is_skipped() ? 0 : -0.5);
      return readings.is_skipped();
    };
    EXPECT_FALSE(skips(1, 2, INFINITY));
    EXPECT_FALSE(skips(-1, 2, 2));
    EXPECT_TRUE(skips(1, 2, 1.9999999999)) << "the bound has more digits than f32";
    for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY), -static_cast<double>(INFINITY)}) {
      EXPECT_TRUE(skips(bad, 2, INFINITY)) << bad;
      EXPECT_TRUE(skips(1, bad, INFINITY)) << bad;
      EXPECT_TRUE(skips(1, bad, 3)) << bad;
    }
    EXPECT_TRUE(skips(1, 2, {})) << "a step that follows a skipped one is skipped";
    EXPECT_TRUE(skips(1, 2, {}));
    EXPECT_FALSE(skips(1, 2, INFINITY)) << "what was skipped leaves no trace";
    EXPECT_FALSE(skips(1, 2, {}));
    EXPECT_FALSE(skips(1, 2, {}));
  });
}

// Many norms are above their running mean, so that the bound changes and is often exceeded.
TEST(StepGraph, SpikesAreTheSameSteps) {
  for (const Config& each : {dropping(30), on_mesh(dropping(30), 1, 2, 1)}) {
    Config config = each;
    config.train.spike = 1.02;
    expect_same(config);
    const std::vector<StepEnd> ends = run(replayed(config)).at(0).ends;
    EXPECT_GT(std::ranges::count(ends, StepEnd::kSkippedSpike), 2);
    EXPECT_GT(std::ranges::count(ends, StepEnd::kDone), 2);
  }
}

TEST(StepGraph, AStepThatStopsLeavesParametersAndHandsOutItsGradients) {
  for (const Config& each : {dropping(8), on_mesh(dropping(8), 1, 2, 1)}) {
    simulate(ranks_of(each), [&] {
      const Config config = replayed(each);
      Trainer trainer(config, synthetic_samples(config));
      for (int i = 0; i < 3; ++i) trainer.step();
      std::size_t gradients = 0;
      trainer.keep_bad_steps([&](const BadStep& step) {
        EXPECT_EQ(step.report.step, 4);
        for (const auto& [name, leaf] : step.parameters) {
          const Tensor gradient = autograd::grad(leaf);
          ASSERT_TRUE(gradient);
          const Tensor own = gradient.has_layout() ? gradient.local() : gradient;
          gradients += std::isnan(ops::item(ops::sum(own)).as_double()) ? 1 : 0;
        }
      });
      ops::fill_(trainer.model().parameters().back().detach(), NAN);
      const std::vector<float> before = own_weights(trainer);
      expect_error<TrainingStopped>([&] { trainer.step(); }, {"step 4", "not finite", "train.on_nan"});
      const std::vector<float> after = own_weights(trainer);
      ASSERT_EQ(after.size(), before.size());
      EXPECT_EQ(std::memcmp(after.data(), before.data(), 4 * before.size()), 0);
      EXPECT_EQ(gradients, trainer.model().parameters().size());
      EXPECT_FALSE(autograd::grad(trainer.model().parameters()[0]));
    });
  }
}

TEST(StepGraph, EvaluationAndSamplesBetweenStepsDisturbNothing) {
  for (const Config& each : {dropping(10), on_mesh(dropping(10), 1, 2, 1)}) {
    expect_same(each, [config = each](Trainer& trainer) {
      thread_local std::vector<double> losses;
      losses.push_back(trainer.evaluate(synthetic_samples(config), 5));
      EXPECT_EQ(trainer.evaluate(synthetic_samples(config), 5), losses.back());
      EXPECT_EQ(trainer.sample({1, 2}, 3, 1.0, 7), trainer.sample({1, 2}, 3, 1.0, 7));
    });
  }
}

TEST(StepGraph, WhatOthersDrawOrSeedBetweenStepsIsMinded) {
  expect_same(dropping(12), [](Trainer& trainer) {
    if (trainer.step_count() == 3) (void)ops::rand({5});
    if (trainer.step_count() == 6) ops::manual_seed(99);  // another graph
    if (trainer.step_count() == 8) ops::set_generator_state({.seed = 99, .call = 2});
  });
}

TEST(StepGraph, ReplaysAllocateNothing) {
  for (const Config& each : {dropping(8), on_mesh(dropping(8), 1, 2, 1)}) {
    simulate(ranks_of(each), [&] {
      const Config config = replayed(each);
      Trainer trainer(config, synthetic_samples(config));
      for (int i = 0; i < 2; ++i) trainer.step();
      const memory::Allocator allocator = memory::Allocator::of(device::Device::get("host"));
      const std::uint64_t before = allocator.statistics().allocations;
      for (int i = 0; i < 3; ++i) trainer.step();
      EXPECT_EQ(allocator.statistics().allocations, before);
    });
  }
}

std::int64_t nbytes_of(const std::vector<OwnedBytes>& bytes, std::string_view owner) {
  for (const OwnedBytes& each : bytes) {
    if (each.owner == owner) return each.nbytes;
  }
  ADD_FAILURE() << owner;
  return 0;
}

TEST(StepGraph, MemoryOfTheStepIsTold) {
  for (const Config& each : {dropping(8), on_mesh(dropping(8), 1, 2, 1)}) {
    simulate(ranks_of(each), [&] {
      std::vector<OwnedBytes> asked;
      {
        Trainer trainer(each, synthetic_samples(each));
        for (int i = 0; i < 3; ++i) trainer.step();
        asked = trainer.memory_peak();
      }
      const memory::Allocator allocator = memory::Allocator::of(device::Device::get("host"));
      allocator.trim();
      Trainer trainer(replayed(each), synthetic_samples(each));
      for (int i = 0; i < 3; ++i) trainer.step();
      const std::vector<OwnedBytes> now = trainer.memory_now();
      // Between steps a graph keeps the memory of its steps: complete chunks, with a small remainder.
      for (const char* owner : {"parameters", "gradients", "optimizer"}) {
        EXPECT_EQ(nbytes_of(now, owner), nbytes_of(asked, owner)) << owner;
      }
      EXPECT_GE(nbytes_of(now, "activations"), nbytes_of(asked, "activations"));
      EXPECT_LE(nbytes_of(now, "total"), static_cast<std::int64_t>(allocator.statistics().now.reserved_nbytes));
      EXPECT_GE(nbytes_of(trainer.memory_peak(), "total"), nbytes_of(now, "total"));
      std::int64_t sum = 0;
      for (const OwnedBytes& owned : now) sum += owned.owner == "total" ? 0 : owned.nbytes;
      EXPECT_EQ(sum, nbytes_of(now, "total"));
    });
  }
}

TEST(StepGraph, ReplaysTellHowLongTheyWaitedForOthers) {
  simulate(1, [] {
    const Config config = replayed(dropping(4));
    Trainer trainer(config, synthetic_samples(config));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(trainer.step().exposed_seconds, 0);
  });
  for (const auto& [dp, fsdp, tp] : std::vector<std::array<int, 3>>{{2, 1, 1}, {1, 2, 1}, {1, 1, 2}}) {
    const Config config = replayed(on_mesh(dropping(4), dp, fsdp, tp));
    simulate(2, [&] {
      Trainer trainer(config, synthetic_samples(config));
      double last = 0;
      for (int i = 0; i < 4; ++i) {
        const StepReport report = trainer.step();
        EXPECT_GT(report.exposed_seconds, 0);
        EXPECT_LT(report.exposed_seconds, report.seconds);
        EXPECT_NE(report.exposed_seconds, last) << "each replay has its own";
        last = report.exposed_seconds;
      }
    });
  }
}

TEST(StepGraph, WhatAsksForAValueIsRefusedByItsName) {
  simulate(1, [] {
    const Config config = replayed(dropping(8));
    Trainer trainer(config, synthetic_samples(config));
    trainer.step();
    const std::vector<float> before = own_weights(trainer);
    const ops::GeneratorState random = ops::generator_state();
    {
      autograd::HookHandle hook = autograd::on_gradient(trainer.model().parameters()[1], [](const Tensor& gradient) {
        (void)ops::item(ops::sum(gradient));
        return gradient;
      });
      expect_error<NotSupported>([&] { trainer.step(); }, {"train.graph", "item", "captured", "omit train.graph"});
      hook.remove();
    }
    EXPECT_EQ(own_weights(trainer), before);
    EXPECT_EQ(trainer.step_count(), 1);
    EXPECT_EQ(ops::generator_state(), random);
    for (const Tensor& leaf : trainer.model().parameters()) EXPECT_FALSE(autograd::grad(leaf));
    EXPECT_EQ(trainer.step().end, StepEnd::kDone) << "without it steps go on";
  });
}

}  // namespace
}  // namespace tessera::train
