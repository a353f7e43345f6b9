// Tasks of the user's own: equal losses on meshes, runs with checkpoints that resume, and their errors.
#include "tessera/train/task.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/nn/layers/mlp.h"
#include "tessera/nn/module_list.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/detail/workload.h"
#include "tessera/train/predict.h"
#include "tessera/train/run.h"
#include "tessera/train/testing/told_runs.h"
#include "tessera/train/trainer.h"

namespace tessera::train {
namespace {

using testing::contains;
using testing::difference;
using testing::left_by;

constexpr std::int64_t kWidth = 8;

// Learns to map points to points, by a loss that is no cross entropy.
struct Mapper : nn::Layer<Mapper> {
  nn::ModuleList<nn::Mlp> layers;
  Mapper()
      : layers(add("layers", nn::ModuleList<nn::Mlp>(2, [](std::int64_t) {
                     return nn::Mlp({.width = kWidth,
                                     .hidden = 16,
                                     .bias = true,
                                     .init = nn::Init::normal(0.3),
                                     .out_init = nn::Init::normal(0.3)});
                   }))) {}
  [[nodiscard]] Tensor loss(const Batch& batch) const {
    Tensor x = constrain(batch[0], {"batch", "sequence", "embed"});
    for (const nn::Mlp& each : layers) x = ops::add(x, each(x));
    const Tensor off = ops::sub(constrain(x, {"batch", "", "embed"}), batch[1]);
    return ops::mean(ops::mul(off, off));
  }
};

// Points [samples, 2, width] and the points that they map to.
Batch points(std::span<const std::uint64_t> samples) {
  const Shape shape{std::ssize(samples), 2, kWidth};
  const Tensor from = ops::empty(shape);
  const Tensor to = ops::empty(shape);
  auto* x = from.data_as<float>();
  auto* y = to.data_as<float>();
  for (const std::uint64_t sample : samples) {
    for (std::int64_t i = 0; i < 2 * kWidth; ++i) {
      *x = static_cast<float>((sample * 37 + static_cast<std::uint64_t>(i) * 11) % 17) / 17 - 0.5F;
      *y++ = *x > 0 ? *x * 2 : 0.25F;
      ++x;
    }
  }
  return {from, to};
}

Task mapper() {
  return task("mapper", [] { return Mapper(); }, {.size = 30, .read = points}, {.size = 8, .read = points});
}

Config small(int dp, int fsdp, int tp) {
  Config config;
  config.model = {.family = std::string(kOwnFamily)};
  config.mesh = {.dp = dp, .fsdp = fsdp, .tp = tp};
  config.train.steps = 12;
  config.train.batch = 8;
  config.optimizer.learning_rate = 1e-2;
  config.eval = {.every = 5, .samples = 8};
  config.checkpoint.every = 2;
  config.run.progress = "lines";
  config.run.log_every = 1;
  return config;
}

std::vector<double> losses_of(const Config& given) {
  const int ranks = given.mesh.dp * given.mesh.fsdp * given.mesh.tp;
  std::vector<double> losses;
  simulate(ranks, [&] {
    const Config config = resolved(given, ranks);
    Trainer trainer(config, mapper());
    std::vector<double> own;
    while (trainer.step_count() < config.train.steps) own.push_back(trainer.step().loss);
    own.push_back(trainer.evaluate(8));
    if (current_place().rank == Rank(0)) losses = std::move(own);
  });
  return losses;
}

TEST(Task, IsPredictedFromTwoStepsWithoutStorage) {
  const Config given = small(1, 1, 2);
  std::vector<OwnedBytes> measured;
  simulate(2, [&] {
    Trainer trainer(resolved(given, 2), mapper());
    for (int i = 0; i < 2; ++i) trainer.step();
    if (current_place().rank == Rank(0)) measured = trainer.memory_peak();
  });
  const Prediction predicted = predict(mapper(), given, 2);
  const auto total = [](const std::vector<OwnedBytes>& all) {
    const auto found = std::ranges::find(all, "total", &OwnedBytes::owner);
    return found == all.end() ? 0.0 : static_cast<double>(found->nbytes);
  };
  EXPECT_GT(total(measured), 0);
  // A host reads its batch in place; the prediction holds a copy.
  const double batch = 2 * 8 * 2 * kWidth * sizeof(float);
  EXPECT_NEAR(total(predicted.memory), total(measured), 0.01 * total(measured) + batch);
  EXPECT_GT(predicted.flops, 0);
  EXPECT_EQ(predicted.parameters, 2 * (2 * kWidth * 16 + 16 + kWidth));
  ASSERT_FALSE(predicted.traffic.empty());
  EXPECT_EQ(predicted.traffic.front().axes, "tp");
}

TEST(Task, HasTheSameLossesOnEveryMesh) {
  const std::vector<double> want = losses_of(small(1, 1, 1));
  EXPECT_LT(want[11], 0.5 * want[0]);
  const auto expect_same = [&](const Config& config, const std::string& what) {
    const std::vector<double> got = losses_of(config);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5 * want[i]) << what << ", " << i;
  };
  expect_same(small(2, 1, 1), "dp 2");
  expect_same(small(1, 2, 1), "fsdp 2");
  expect_same(small(1, 2, 2), "fsdp 2 x tp 2");
  Config config = small(1, 2, 1);
  config.train.accumulate = 2;
  expect_same(config, "micro-batches");
  config = small(1, 2, 1);
  config.train.graph = true;
  expect_same(config, "replayed steps");
  config = small(1, 2, 1);
  config.train.checkpointing = "full";
  expect_same(config, "checkpointing");
}

TEST(Task, ReadsEverySampleOnceInAnEpoch) {
  std::multiset<std::uint64_t> first;
  std::vector<std::uint64_t> orders[2];
  for (std::uint64_t i = 0; i < 60; ++i) {
    orders[i / 30].push_back(detail::shuffled(i, 30, 1));
    if (i < 30) first.insert(orders[0].back());
  }
  for (std::uint64_t i = 0; i < 30; ++i) EXPECT_EQ(first.count(i), 1U) << i;
  EXPECT_NE(orders[0], orders[1]) << "each epoch has its own order";
}

class TaskRuns : public testing::ToldRuns {
 protected:
  // Runs on 2 ranks with FSDP.
  RunSummary run_task(const Task& task, Config config, const char* name = "run") {
    config.run.directory = path(name).string();
    said.clear();
    const testing::LineListener out([&](const std::string& line) { said += line + "\n"; });
    RunSummary summary;
    simulate(2, [&] {
      const RunSummary own = train::run(task, config, out.file());
      if (current_place().rank == Rank(0)) summary = own;
    });
    return summary;
  }
};

TEST_F(TaskRuns, LeaveTheFilesOfARunAndResume) {
  Config config = small(1, 2, 1);
  config.schedule.kind = "constant";
  const RunSummary whole = run_task(mapper(), config, "whole");
  EXPECT_EQ(whole.end, RunEnd::kDone);
  EXPECT_EQ(whole.tokens, 12 * 8) << "samples";
  EXPECT_TRUE(contains(said, "mapper: ")) << said;
  EXPECT_TRUE(contains(said, "data: 30 samples for training, 8 held out\n")) << said;
  EXPECT_TRUE(contains(said, "batch 8 samples; f32 compute")) << said;
  EXPECT_TRUE(contains(said, " samples/s")) << said;
  EXPECT_TRUE(contains(said, "held-out loss ")) << said;
  const auto json = nlohmann::json::parse(testing::content(path("whole") / "summary.json"));
  EXPECT_EQ(json.at("end"), "done");
  EXPECT_EQ(json.at("held_out").at("evaluations").size(), 3U);

  config.train.steps = 6;
  EXPECT_EQ(run_task(mapper(), config).steps, 6);
  EXPECT_TRUE(run_task(mapper(), config).was_finished);
  config.train.steps = 12;
  EXPECT_EQ(run_task(mapper(), config).resumed_from, std::vector<std::int64_t>{6});
  auto got = left_by(path());
  const auto want = left_by(path("whole"));
  got["loss.csv"] = want.at("loss.csv");  // the shorter one was evaluated at its end too
  EXPECT_EQ(difference(got, want), "");
  Config read;
  read_toml(read, path() / "config.toml");
  EXPECT_EQ(read.model.family, "own");

  Task other = mapper();
  other.training.size = 31;
  config.train.steps = 14;
  expect_error<InvalidArgument>([&] { (void)run_task(other, config); }, {"cannot resume from", "the data differ"});
}

TEST_F(TaskRuns, RefuseWhatDoesNotFit) {
  const auto refuses = [&](const Task& task, const Config& config, std::initializer_list<std::string_view> words) {
    expect_error<InvalidArgument>([&] { (void)run_task(task, config); }, words);
    EXPECT_FALSE(std::filesystem::exists(path() / "config.toml"));
  };
  const Config config = small(1, 2, 1);
  Task task = mapper();
  task.training.size = 0;
  refuses(task, config, {"task mapper: must have a function that creates the model, and training data"});
  task = mapper();
  task.training.read = [](std::span<const std::uint64_t>) { return Batch{ops::zeros({3, 2, kWidth})}; };
  refuses(task, config,
          {"task mapper: read must return plain contiguous tensors with one row per sample (1)", "3, 2, 8"});
  Config odd = config;
  odd.eval.samples = 9;
  refuses(mapper(), odd, {"eval.samples: must be a multiple of train.batch / train.accumulate (8) for a task, got 9"});
  struct Unreduced : nn::Layer<Unreduced> {
    nn::Parameter weight;
    Unreduced() : weight(parameter("weight", {2, kWidth})) {}
    [[nodiscard]] Tensor loss(const Batch& batch) const { return ops::mul(batch[0], weight); }
  };
  expect_error<InvalidArgument>(
      [&] {
        (void)run_task(train::task("unreduced", [] { return Unreduced(); }, {.size = 30, .read = points}), config);
      },
      {"task unreduced: loss must be a tensor of one element, got [8, 2, 8]"});
  expect_error<InvalidArgument>([&] { (void)train::run(small(1, 1, 1)); }, {"model.family: own models need a program"});
}

}  // namespace
}  // namespace tessera::train
