// Steps that fail on a GPU: the error names the step and what is known of the cause, and the last checkpoint remains.
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/device/faults.h"
#include "tessera/memory/allocator.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/run.h"
#include "tessera/train/testing/runs.h"
#include "tessera/train/testing/told_runs.h"

namespace tessera::train {
namespace {

class FailedStepOnGpu : public testing::ToldRuns {
 protected:
  void SetUp() override {
    for (const device::AbsentKind& absent : device::Device::absent()) {
      if (absent.kind == "cuda") GTEST_SKIP() << absent.reason;
    }
    ToldRuns::SetUp();
    failing = config();
    failing.run.device = "cuda";
    failing.eval.every = 0;
    failing.model.width = 64;
    failing.model.sequence = 128;  // more activations than memory that stays mapped
    failing.train.batch = 32;
  }
  // Runs, and calls `spoil` after step 2.
  void run_and_spoil(const std::function<void()>& spoil) {
    const testing::LineListener out([&](const std::string& line) {
      said += line + "\n";
      if (line.starts_with("step 2/")) spoil();
    });
    (void)run(failing, out.file());
  }
  void expect_checkpoint() const {
    const auto good = last_good(path() / "checkpoints", {});
    ASSERT_TRUE(good.has_value());
    EXPECT_EQ(good->step, 2);
  }
  void expect_out_of_memory(const char* step) {
    const memory::Allocator allocator = memory::Allocator::of("cuda:0");
    const auto spoil = [&] {
      device::Device("cuda:0").synchronize();  // a step ahead must not hold memory that the next one reuses
      allocator.trim();
      allocator.set_limit(1);
    };
    expect_error<OutOfMemory>([&] { run_and_spoil(spoil); }, {step, "--train.batch ", " per rank on cuda:0"});
    allocator.set_limit(0);
    for (const char* owner : {"parameters", "optimizer", "activations"})
      EXPECT_TRUE(testing::contains(said, owner)) << "the report lists owners: " << said;
  }
  Config failing;
};

TEST_F(FailedStepOnGpu, WithoutMemoryNamesTheBatchThatFits) {
  expect_out_of_memory("step 3: ");
  expect_checkpoint();
}

// Nothing is due after step 2, so that step 3 was enqueued before it, and step 4 finds no memory.
TEST_F(FailedStepOnGpu, WithoutMemoryAStepAheadIsReportedInItsTurn) {
  failing.checkpoint.every = 0;
  expect_out_of_memory("step 4: ");
  EXPECT_TRUE(testing::contains(said, "\nstep 3/")) << said;
}

TEST_F(FailedStepOnGpu, OfTheDriverNamesTheStepAndItsLastLaunches) {
  device::FaultInjector& faults = device::Device("cuda:0").faults();
  expect_error<DeviceError>([&] { run_and_spoil([&] { faults.fail(device::DriverCall::kLaunch, 2); }); },
                            {"step 3: ", "; last launches: ", " on stream ", "cuda:0"});
  faults.clear();
  expect_checkpoint();
}

// Step 3 is enqueued when step 2 is printed, so the next wait is that for step 3.
TEST_F(FailedStepOnGpu, OfTheDriverInAWaitNamesTheStepThatWasWaitedFor) {
  failing.checkpoint.every = 0;
  device::FaultInjector& faults = device::Device("cuda:0").faults();
  expect_error<DeviceError>([&] { run_and_spoil([&] { faults.fail(device::DriverCall::kSynchronize, 1); }); },
                            {"step 3: ", "; last launches: "});
  faults.clear();
  EXPECT_EQ(testing::lines_of(path() / "metrics.jsonl").size(), 2U);
}

// The other rank waits for the failed one in a collective on the GPU.
TEST_F(FailedStepOnGpu, OfOneRankEndsAllRanks) {
  Config config = testing::on_mesh(testing::small_config(), 2, 1, 1);
  std::atomic<int> ended = 0;
  const auto train = [&] {
    simulate(2, [&] {
      struct Ending {
        std::atomic<int>& count;
        ~Ending() { ++count; }
      } const ending{ended};
      const tensor::DeviceScope scope(device::Device("cuda:0"));
      Trainer trainer(resolved(config, 2), testing::synthetic_samples(config));
      trainer.step();
      if (current_place().rank == Rank(1)) device::Device("cuda:0").faults().fail(device::DriverCall::kLaunch, 40);
      for (int i = 0; i < 20; ++i) trainer.step();
    });
  };
  EXPECT_THROW(train(), Error);
  device::Device("cuda:0").faults().clear();
  EXPECT_EQ(ended.load(), 2);
}

}  // namespace
}  // namespace tessera::train
