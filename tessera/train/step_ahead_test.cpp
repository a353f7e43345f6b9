// Steps that are enqueued before the step before them is read: nothing waits for the host, and all results are those of
// steps one after the other, with bad steps too.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/device/host/host_device.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/task.h"
#include "tessera/train/testing/replays.h"
#include "tessera/train/testing/runs.h"
#include "tessera/train/testing/step_ahead.h"

namespace tessera::train {
namespace {

using testing::difference;
using testing::ReplayResults;
using testing::results_of_task;
using testing::TaskResults;

// Calls `body` on a rank whose device is a second host device: its streams run on their own threads.
void on_another_device(const std::function<void()>& body) {
  simulate(1, [&] {
    const tensor::DeviceScope scope(device::host::make_host_device());
    body();
  });
}

Config dropping(bool is_graph) {
  Config config = testing::small_config();
  config.train.steps = 12;
  config.model.dropout = 0.2;
  config.optimizer.clip = 0.5;
  config.train.graph = is_graph;
  return config;
}

// The device is stopped in step 1 until the batch of step 3 is read, which is after step 2 was enqueued.
TEST(StepAhead, IsEnqueuedBeforeTheStepBeforeItIsRead) {
  on_another_device([] {
    Config config = testing::small_config();
    config.run.check_replicas = 0;
    std::optional<device::Hold> hold;
    const std::int64_t row = config.model.sequence + 1;
    Trainer trainer(config, BatchSource([&](std::uint64_t k) {
                      if (k == 2 && hold) hold->release();
                      return std::vector<std::int32_t>(static_cast<std::size_t>(config.train.batch * row),
                                                       static_cast<std::int32_t>(k % 7));
                    }));
    hold = tensor::current_stream(tensor::default_device()).hold(std::chrono::seconds(60));
    const StepReport first = trainer.step(Ahead::kNextStep);
    EXPECT_FALSE(hold->timed_out());
    EXPECT_EQ(first.step, 1);
    EXPECT_TRUE(std::isfinite(first.loss));
    EXPECT_EQ(trainer.step_count(), 1);
    EXPECT_TRUE(trainer.has_step_ahead());
    EXPECT_EQ(trainer.step().step, 2);
    EXPECT_FALSE(trainer.has_step_ahead());
  });
}

TEST(StepAhead, HasTheBitsOfStepsOneAfterTheOther) {
  for (const bool is_graph : {false, true}) {
    for (const std::int64_t accumulate : {1, 2}) {
      Config config = dropping(is_graph);
      config.train.accumulate = accumulate;
      ReplayResults want;
      ReplayResults got;
      on_another_device([&] { want = testing::seen_run(config); });
      on_another_device([&] { got = testing::seen_run(config, {}, Ahead::kNextStep); });
      EXPECT_EQ(difference(got, want), "") << "graph " << is_graph << ", micro-batches " << accumulate;
    }
  }
}

// The third step is due to be compared, and the spike bound needs each norm.
TEST(StepAhead, StaysAwayWhereTheHostDecides) {
  on_another_device([] {
    Config config = dropping(false);
    config.run.check_replicas = 3;
    Trainer trainer(config, testing::synthetic_samples(config));
    std::vector<bool> is_ahead;
    for (int step = 1; step <= 6; ++step) {
      trainer.step(Ahead::kNextStep);
      is_ahead.push_back(trainer.has_step_ahead());
    }
    EXPECT_EQ(is_ahead, (std::vector<bool>{false, true, false, true, true, false}));
    config.train.spike = 4;
    Trainer bounded(config, testing::synthetic_samples(config));
    for (int step = 1; step <= 4; ++step) {
      bounded.step(Ahead::kNextStep);
      EXPECT_FALSE(bounded.has_step_ahead()) << step;
    }
  });
}

TEST(StepAhead, BadStepsAreSkippedWithTheSameBits) {
  for (const bool is_graph : {false, true}) {
    TaskResults want;
    TaskResults got;
    on_another_device([&] { want = results_of_task(is_graph, Ahead::kNone); });
    on_another_device([&] { got = results_of_task(is_graph, Ahead::kNextStep); });
    EXPECT_EQ(std::ranges::count(want.steps.ends, StepEnd::kSkippedNan), 2);
    EXPECT_EQ(difference(got.steps, want.steps), "") << is_graph;
    EXPECT_EQ(got.bad_steps, want.bad_steps) << "steps with samples, parameters and gradients";
    EXPECT_EQ(got.checkpoint, want.checkpoint);
  }
}

TEST(StepAhead, ABadStepThatStopsLeavesTheParametersBeforeIt) {
  on_another_device([] {
    const Config config = testing::task_config(false, "stop");
    Trainer trainer(config, testing::task_with_bad_samples());
    std::vector<float> before;
    std::int64_t taken = 0;
    const auto run = [&](Ahead ahead) {
      while (taken < config.train.steps) taken = trainer.step(ahead).step;
    };
    expect_error<TrainingStopped>([&] { run(Ahead::kNextStep); }, {"not finite", "step "});
    EXPECT_FALSE(trainer.has_step_ahead());
    EXPECT_EQ(trainer.step_count(), taken + 1);
    Trainer slow(config, testing::task_with_bad_samples());
    for (std::int64_t step = 0; step < taken; ++step) slow.step();
    EXPECT_EQ(testing::own_weights(trainer), testing::own_weights(slow));
  });
}

TEST(StepAhead, ErrorsBelongToTheirStep) {
  on_another_device([] {
    Config config = testing::small_config();
    const std::int64_t row = config.model.sequence + 1;
    Trainer trainer(config, BatchSource([&](std::uint64_t k) {
                      TESSERA_CHECK_AS(IoError, k != 4, "batch 4 cannot be read");
                      return std::vector<std::int32_t>(static_cast<std::size_t>(config.train.batch * row), 1);
                    }));
    for (std::int64_t step = 1; step <= 4; ++step) EXPECT_EQ(trainer.step(Ahead::kNextStep).step, step);
    EXPECT_EQ(trainer.step_count(), 4);
    EXPECT_THROW((void)trainer.step(Ahead::kNextStep), IoError);
  });
}

TEST(StepAhead, ParametersCannotBeSavedOrEvaluatedMeanwhile) {
  on_another_device([] {
    const Config config = dropping(false);
    Trainer trainer(config, testing::synthetic_samples(config));
    while (!trainer.has_step_ahead()) trainer.step(Ahead::kNextStep);
    expect_error<InvalidArgument>([&] { (void)trainer.checkpoint_state(); }, {"checkpoint_state: requires", "step 3"});
    expect_error<InvalidArgument>([&] { trainer.evaluate(testing::synthetic_samples(config), 1); }, {"evaluate: "});
    expect_error<InvalidArgument>([&] { trainer.sample({1}, 1, 0, 1); }, {"sample: "});
    trainer.step();
    EXPECT_NO_THROW((void)trainer.checkpoint_state());
  });
}

}  // namespace
}  // namespace tessera::train
