// The trainer: steps on any mesh, and bad steps.
#include "tessera/train/trainer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/shard/distribute.h"
#include "tessera/train/detail/agreement.h"
#include "tessera/train/detail/run_signals.h"
#include "tessera/train/make_model.h"
#include "tessera/train/testing/runs.h"

namespace tessera::train {
namespace {

using testing::Curve;
using testing::on_mesh;
using testing::run_on_ranks;
using testing::small_config;
using testing::synthetic_samples;

int ranks_of(const Config& config) { return config.mesh.dp * config.mesh.fsdp * config.mesh.tp; }

Config short_config() {
  Config config = small_config();
  config.train.steps = 8;
  return config;
}

// Meshes that together have every axis.
std::vector<Config> meshes_of(const Config& config) {
  return {on_mesh(config, 1, 1, 1), on_mesh(config, 2, 1, 2), on_mesh(config, 1, 2, 2)};
}

TEST(Trainer, LearnsWhatCanBeLearnt) {
  Config config = small_config();
  config.train.steps = 100;
  const Curve curve = run_on_ranks(config);
  EXPECT_GT(curve.losses.front(), 3.0);
  EXPECT_LT(curve.losses.back(), 1.0);
}

TEST(Trainer, MicroBatchesAddUpToTheBatch) {
  Config config = short_config();
  config.train.batch = 8;
  const Curve want = run_on_ranks(config);
  config.train.accumulate = 4;
  for (const Config& each : meshes_of(config)) {
    EXPECT_EQ(testing::difference(run_on_ranks(each), want, 1e-5), "") << testing::mesh_name(each.mesh);
  }
}

// Recomputed, gathered ahead or on demand: bitwise equal.
TEST(Trainer, MemoryIsTradedForTimeAlone) {
  Config config = short_config();
  config.model.dropout = 0.1;
  for (const Config& each : meshes_of(config)) {
    const Curve want = run_on_ranks(each);
    for (const char* how : {"full", "selective"}) {
      for (const bool prefetches : {true, false}) {
        Config other = each;
        other.train.checkpointing = how;
        other.mesh.prefetch = prefetches;
        EXPECT_EQ(testing::difference(run_on_ranks(other), want, 0), "")
            << how << ", " << testing::mesh_name(each.mesh) << ", prefetch " << prefetches;
      }
    }
    Config other = each;
    other.mesh.prefetch = false;
    EXPECT_EQ(testing::difference(run_on_ranks(other), want, 0), "") << testing::mesh_name(each.mesh);
  }
}

TEST(Trainer, OtherModelsHaveTheSameNumbersOnEveryMeshToo) {
  Config tied = short_config();
  tied.model.tied = true;
  Config dropping = short_config();
  dropping.model.dropout = 0.2;
  Config whole = short_config();
  whole.mesh.sequence_parallel = false;
  for (const Config& config : {tied, dropping, whole}) {
    const Curve want = run_on_ranks(config);
    for (const Config& each : meshes_of(config)) {
      EXPECT_EQ(testing::difference(run_on_ranks(each), want, 1e-5), "")
          << testing::mesh_name(each.mesh) << (each.model.tied ? ", tied" : "")
          << (each.model.dropout > 0 ? ", dropout" : "") << (each.mesh.sequence_parallel ? "" : ", complete sequences");
    }
  }
}

TEST(Trainer, DropoutChangesTheLossInTrainingAlone) {
  Config config = short_config();
  const Curve without = run_on_ranks(config);
  config.model.dropout = 0.2;
  const Curve with = run_on_ranks(config);
  EXPECT_EQ(with.weights, without.weights);
  EXPECT_NE(with.losses, without.losses);
  EXPECT_EQ(with.losses, run_on_ranks(config).losses);
  std::vector<double> evaluated;
  for (const double dropout : {0.0, 0.2}) {
    config.model.dropout = dropout;
    simulate(1, [&] {
      evaluated.push_back(Trainer(config, synthetic_samples(config)).evaluate(synthetic_samples(config), 8));
    });
  }
  EXPECT_EQ(evaluated[0], evaluated[1]);
}

TEST(Trainer, LearnsInBf16OnEveryMesh) {
  Config config = small_config();
  const Curve f32 = run_on_ranks(config);
  config.train.dtype = "bf16";
  for (const Config& each : meshes_of(config)) {
    const Curve got = run_on_ranks(each);
    EXPECT_EQ(got.weights, f32.weights);
    EXPECT_NE(got.losses, f32.losses);
    EXPECT_NEAR(got.losses.front(), f32.losses.front(), 0.01);
    EXPECT_NEAR(got.losses.back(), f32.losses.back(), 0.1 * f32.losses.back()) << testing::mesh_name(each.mesh);
  }
}

// Returns all global weights of all parameters.
std::vector<float> weights_of(const Trainer& trainer) {
  std::vector<float> out;
  for (const Tensor& leaf : trainer.model().parameters()) {
    const Tensor whole = ops::contiguous(shard::gather(leaf.detach()));
    device::Device::get("host").synchronize();
    out.insert(out.end(), whole.data_as<float>(), whole.data_as<float>() + whole.numel());
  }
  return out;
}

// Makes the next loss and gradients infinite or NaN.
void spoil_head(const Trainer& trainer, double value) {
  ops::fill_(trainer.model().parameters().back().detach(), value);
}

TEST(Trainer, AStepThatIsNotFiniteIsSkippedOrStops) {
  for (const Config& each : meshes_of(short_config())) {
    for (const bool stops : {true, false}) {
      Config config = each;
      config.train.on_nan = stops ? "stop" : "skip";
      simulate(ranks_of(config), [&] {
        Trainer trainer(config, synthetic_samples(config));
        EXPECT_EQ(trainer.step().end, StepEnd::kDone);
        spoil_head(trainer, NAN);
        const std::vector<float> before = weights_of(trainer);
        if (stops) {
          expect_error<TrainingStopped>([&] { trainer.step(); }, {"step 2", "not finite", "train.on_nan"});
        } else {
          EXPECT_EQ(trainer.step().end, StepEnd::kSkippedNan);
        }
        const std::vector<float> after = weights_of(trainer);
        ASSERT_EQ(after.size(), before.size());
        EXPECT_EQ(std::memcmp(after.data(), before.data(), before.size() * sizeof(float)), 0);
        EXPECT_EQ(trainer.step_count(), 2);
      });
    }
  }
}

TEST(Trainer, ASpikeIsSkippedOrStops) {
  for (const bool stops : {true, false}) {
    Config config = on_mesh(short_config(), 2, 1, 2);
    config.train.spike = 4;
    config.train.on_spike = stops ? "stop" : "skip";
    simulate(4, [&] {
      Trainer trainer(config, synthetic_samples(config));
      for (int i = 0; i < 4; ++i) EXPECT_EQ(trainer.step().end, StepEnd::kDone);
      const Tensor head = trainer.model().parameters().back().detach();
      const Tensor kept = ops::clone(head);
      ops::normal_(head, 0, 50);
      const std::vector<float> before = weights_of(trainer);
      if (stops) {
        expect_error<TrainingStopped>([&] { trainer.step(); }, {"step 5", "spike", "train.on_spike"});
      } else {
        EXPECT_EQ(trainer.step().end, StepEnd::kSkippedSpike);
      }
      EXPECT_EQ(weights_of(trainer), before);
      ops::copy_(head, kept);
      EXPECT_EQ(trainer.step().end, StepEnd::kDone);
    });
  }
}

TEST(Trainer, EvaluatesTheSameSamplesOnEveryMesh) {
  std::vector<double> losses;
  for (const Config& config : meshes_of(short_config())) {
    simulate(ranks_of(config), [&] {
      Trainer trainer(config, synthetic_samples(config));
      const double first = trainer.evaluate(synthetic_samples(config), 7);  // no batch divides 7
      EXPECT_EQ(trainer.evaluate(synthetic_samples(config), 7), first);
      const double without_last = trainer.evaluate(synthetic_samples(config), 6);
      EXPECT_GT(std::abs(without_last - first), 1e-6);
      // Rows that pad a batch do not count.
      const auto last = [read = synthetic_samples(config)](std::uint64_t number, std::span<std::int32_t> tokens) {
        read(number + 6, tokens);
      };
      EXPECT_NEAR(7 * first, 6 * without_last + trainer.evaluate(last, 1), 1e-4);
      const StepReport report = trainer.step();
      EXPECT_LT(trainer.evaluate(synthetic_samples(config), 7), first);
      EXPECT_EQ(report.tokens, config.train.batch * config.model.sequence);
      if (current_place().rank == Rank(0)) losses.push_back(first);
    });
  }
  for (const double loss : losses) EXPECT_NEAR(loss, losses[0], 1e-5 * losses[0]);
}

// Ranks of a mesh meet in every batch: if one left alone, the others would wait.
TEST(Trainer, AllRanksEndAnEvaluationThatOneOfThemIsAskedToEnd) {
  for (const Config& config : meshes_of(small_config())) {
    std::atomic<int> ended = 0;
    simulate(ranks_of(config), [&] {
      Trainer trainer(config, synthetic_samples(config));
      const double whole = trainer.evaluate(synthetic_samples(config), 30);
      const bool is_asked = current_place().rank.value() == ranks_of(config) - 1;
      detail::Agreement agreement;
      std::uint64_t batches = 0;
      const auto until_third = [&](std::uint64_t done, std::uint64_t all) {
        EXPECT_EQ(done, ++batches);
        EXPECT_EQ(all, 8u);
        if (agreement.exchange_now({.stop = is_asked && done == 3}).stop) throw detail::AskedToEnd();
      };
      EXPECT_THROW((void)trainer.evaluate(synthetic_samples(config), 30, until_third), detail::AskedToEnd);
      EXPECT_EQ(batches, 3u) << "in the batch in which it came";
      batches = 0;
      EXPECT_THROW((void)trainer.sample({1, 2}, 8, 1.0, 1, until_third), detail::AskedToEnd);
      EXPECT_EQ(batches, 3u);
      EXPECT_EQ(trainer.evaluate(synthetic_samples(config), 30), whole) << "another one is not touched by it";
      ++ended;
    });
    EXPECT_EQ(ended, ranks_of(config));
  }
}

TEST(Trainer, SaysWhatItLearnt) {
  for (Config config : meshes_of(small_config())) {
    config.train.steps = 300;
    simulate(ranks_of(config), [&] {
      // Tokens count up, so that the next ones are known.
      const auto counting = [](std::uint64_t number, std::span<std::int32_t> tokens) {
        for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>((number + i) % 32);
      };
      Trainer trainer(config, SampleReader(counting));
      while (trainer.step_count() < 150) trainer.step();
      const std::vector<std::uint32_t> prompt{29, 30};
      EXPECT_EQ(trainer.sample(prompt, 12, 0, 1), (std::vector<std::uint32_t>{31, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
      EXPECT_EQ(trainer.sample(prompt, 4, 5.0, 1), trainer.sample(prompt, 4, 5.0, 1));
      EXPECT_NE(trainer.sample(prompt, 8, 50.0, 1), trainer.sample(prompt, 8, 50.0, 2));
    });
  }
}

}  // namespace
}  // namespace tessera::train
