// Steps that fail: the error names the step and what is known of the cause, and the last checkpoint remains.
#include "tessera/train/detail/step_failure.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/device/device.h"
#include "tessera/device/faults.h"
#include "tessera/memory/allocator.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/run.h"
#include "tessera/train/testing/told_runs.h"

namespace tessera::train {
namespace {

class FailedStep : public testing::ToldRuns {
 protected:
  void SetUp() override {
    ToldRuns::SetUp();
    failing = config();
    failing.eval.every = 0;
    failing.model.width = 64;
    failing.model.sequence = 128;  // more activations than memory that stays mapped
    failing.train.batch = 32;
  }
  // Runs, and calls `spoil` after step 2, which has a checkpoint.
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
  Config failing;
};

TEST_F(FailedStep, WithoutMemoryNamesTheBatchThatFits) {
  const memory::Allocator allocator = memory::Allocator::of(tensor::host_device());
  const auto spoil = [&] {
    allocator.trim();
    allocator.set_limit(1);
  };
  expect_error<OutOfMemory>([&] { run_and_spoil(spoil); }, {"step 3: ", "--train.batch ", " per rank on host"});
  allocator.set_limit(0);
  EXPECT_TRUE(testing::contains(said, "activations")) << "the report lists owners: " << said;
  expect_checkpoint();
}

TEST_F(FailedStep, OfADeviceNamesTheLastLaunches) {
  device::FaultInjector& faults = tensor::host_device().faults();
  const auto spoil = [&] { faults.fail(device::DriverCall::kSynchronize, 2); };
  expect_error<DeviceError>([&] { run_and_spoil(spoil); }, {"step 3: ", "; last launches: ", " on stream "});
  faults.clear();
  expect_checkpoint();
}

TEST(LastLaunches, AreThoseOfTheRecord) {
  const Tensor x = ops::ones({8});
  (void)ops::mul(x, 3);
  tensor::host_device().synchronize();
  const std::string text = detail::last_launches();
  EXPECT_TRUE(text.empty() || testing::contains(text, " on stream ")) << text;
}

}  // namespace
}  // namespace tessera::train
