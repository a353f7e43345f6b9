// Runs whose predicted memory exceeds that of the host are rejected with options that fit.
#include "tessera/train/memory_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "tessera/base/bytes.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/predict.h"
#include "tessera/train/testing/told_runs.h"

namespace tessera::train {
namespace {

using testing::contains;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

Config of_preset(const char* name) {
  Config config;
  config.model.preset = name;
  return config;
}

std::string peak_text(const Config& config, int world_size) {
  return format_bytes(static_cast<std::uint64_t>(predicted_peak(config, world_size)));
}

TEST(MemoryFit, ARunThatFitsIsNotRefused) {
  EXPECT_EQ(memory_refusal(of_preset("tiny"), 1, {.host_nbytes = kGiB}), "");
  EXPECT_EQ(memory_refusal(of_preset("8b"), 1, {}), "") << "nothing is known of the host";
}

TEST(MemoryFit, ALargeModelOnASmallHostIsRefusedWithTheNumbersAndFixes) {
  const Config config = of_preset("8b");
  const std::string refusal = memory_refusal(config, 1, {.host_nbytes = 24 * kGiB});
  EXPECT_TRUE(refusal.starts_with("train: predicted peak " + peak_text(config, 1) +
                                  " per rank exceeds 24 GiB free on host; use "))
      << refusal;
  EXPECT_TRUE(refusal.ends_with("; --force starts anyway")) << refusal;
  EXPECT_TRUE(contains(
      refusal,
      "16 ranks on 16 such hosts with --train.checkpointing full --train.dtype bf16 --mesh.fsdp 8 --mesh.tp 2 ("))
      << refusal;
  EXPECT_TRUE(contains(refusal, "--model.preset ")) << refusal;
}

TEST(MemoryFit, ReplicasThatWouldFitAsShardsAreToldSo) {
  Config config = of_preset("124m");
  Config sharded = config;
  sharded.mesh.fsdp = 4;
  const std::int64_t needed = 4 * predicted_peak(sharded, 4);
  const std::string refusal = memory_refusal(config, 4, {.host_nbytes = needed, .ranks = 4});
  EXPECT_TRUE(contains(refusal, " for 4 ranks on this host, exceeds ")) << refusal;
  EXPECT_TRUE(contains(refusal, "; use --mesh.fsdp 4 (" + peak_text(sharded, 4) + ")")) << refusal;
  EXPECT_EQ(memory_refusal(sharded, 4, {.host_nbytes = needed, .ranks = 4}), "") << "what is advised fits";
  EXPECT_NE(memory_refusal(sharded, 4, {.host_nbytes = needed - 4, .ranks = 4}), "") << "and nothing less does";
  config.mesh.dp = 4;
  EXPECT_TRUE(
      contains(memory_refusal(config, 4, {.host_nbytes = needed, .ranks = 4}), "use --mesh.dp 1 --mesh.fsdp 4 ("));
}

TEST(MemoryFit, ActivationsShrinkByCheckpointingAndMicroBatches) {
  const Config config = of_preset("124m");
  Config checkpointed = config;
  checkpointed.train.checkpointing = "full";
  Config accumulated = config;
  accumulated.train.accumulate = 8;
  Config kept = config;
  kept.train.checkpointing = "selective";
  const std::int64_t needed = std::max(predicted_peak(kept, 1), predicted_peak(accumulated, 1));
  const std::string refusal = memory_refusal(config, 1, {.host_nbytes = needed});
  EXPECT_TRUE(contains(refusal, "--train.checkpointing selective (" + peak_text(kept, 1) + ")")) << refusal;
  EXPECT_TRUE(contains(refusal, "--train.accumulate 8 (" + peak_text(accumulated, 1) + ")")) << refusal;
  const std::string tight = memory_refusal(config, 1, {.host_nbytes = predicted_peak(checkpointed, 1)});
  EXPECT_TRUE(contains(tight, "--train.checkpointing full (" + peak_text(checkpointed, 1) + ")")) << tight;
}

TEST(MemoryFit, TheCapacityOfARankIsALimitToo) {
  const std::string refusal = memory_refusal(of_preset("1b"), 1, {.host_nbytes = 900 * kGiB, .rank_nbytes = kGiB});
  EXPECT_TRUE(contains(refusal, " per rank exceeds TESSERA_HOST_CAPACITY, 1 GiB; ")) << refusal;
}

TEST(MemoryFit, TheAddressSpaceOfARankIsALimitToo) {
  const std::string refusal = memory_refusal(of_preset("1b"), 1, {.host_nbytes = 900 * kGiB, .address_nbytes = kGiB});
  EXPECT_TRUE(contains(refusal, " per rank exceeds 1 GiB of remaining address space (ulimit -v); ")) << refusal;
}

TEST(MemoryFit, CheckpointsAreWrittenFromACopy) {
  const Config config = of_preset("124m");
  Config without = config;
  without.checkpoint.every = 0;
  std::int64_t state = 0;
  for (const OwnedBytes& each : predicted_memory(config, 1))
    state += each.owner == "parameters" || each.owner == "optimizer" ? each.nbytes : 0;
  EXPECT_GT(state, 0);
  EXPECT_EQ(predicted_peak(config, 1) - predicted_peak(without, 1), state);
  const std::int64_t tight = predicted_peak(config, 1) - 1;
  EXPECT_NE(memory_refusal(config, 1, {.host_nbytes = tight}), "");
  EXPECT_EQ(memory_refusal(without, 1, {.host_nbytes = tight}), "");
  EXPECT_EQ(memory_refusal(config, 1, {.rank_nbytes = tight}), "") << "the copy is not in device memory";
}

class FreeHostMemory : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root.path() / name).parent_path());
    std::ofstream(root.path() / name) << text;
  }
  testing::TemporaryDirectory root;
};

TEST_F(FreeHostMemory, IsWhatTheSystemAndEveryCgroupAroundLeave) {
  EXPECT_EQ(free_host_memory(root.path()), std::nullopt);
  write("proc/meminfo", "MemTotal:  9000 kB\nMemFree: 10 kB\nMemAvailable:    8000 kB\n");
  EXPECT_EQ(free_host_memory(root.path()), 8000 * 1024);
  write("proc/self/cgroup", "0::/job/step\n");
  write("sys/fs/cgroup/job/step/memory.max", "max\n");
  write("sys/fs/cgroup/job/step/memory.current", "4096\n");
  EXPECT_EQ(free_host_memory(root.path()), 8000 * 1024) << "no limit";
  write("sys/fs/cgroup/job/memory.max", "1000000\n");
  write("sys/fs/cgroup/job/memory.current", "400000\n");
  write("sys/fs/cgroup/job/memory.stat", "anon 300000\ninactive_file 100000\n");
  EXPECT_EQ(free_host_memory(root.path()), 1000000 - 300000);
}

TEST_F(FreeHostMemory, KnowsCgroupsOfTheFirstVersion) {
  write("proc/meminfo", "MemAvailable:    8000 kB\n");
  write("proc/self/cgroup", "5:cpu:/a\n4:memory:/in\n");
  write("sys/fs/cgroup/memory/in/memory.limit_in_bytes", "500000\n");
  write("sys/fs/cgroup/memory/in/memory.usage_in_bytes", "600000\n");
  EXPECT_EQ(free_host_memory(root.path()), 0) << "never less than nothing";
}

TEST(MemoryFit, TensorsOnADeviceUseItsMemory) {
  Config config = of_preset("1b");
  config.checkpoint.every = 0;
  const std::int64_t tensors = predicted_peak(config, 1);
  EXPECT_EQ(memory_refusal(config, 1, {.host_nbytes = kGiB, .device_nbytes = tensors, .device = "abacus:0"}), "")
      << "the host holds no tensor";
  const std::string refusal =
      memory_refusal(config, 1, {.host_nbytes = kGiB, .device_nbytes = tensors - 1, .device = "abacus:0"});
  EXPECT_TRUE(contains(refusal, " per rank exceeds ")) << refusal;
  EXPECT_TRUE(contains(refusal, " free on abacus:0; use ")) << refusal;
  const std::string shared =
      memory_refusal(config, 2, {.ranks = 2, .device_nbytes = tensors, .device = "abacus:0", .device_ranks = 2});
  EXPECT_TRUE(contains(shared, " for 2 ranks on abacus:0, exceeds ")) << shared;
  config.checkpoint.every = 10;
  const std::string staging =
      memory_refusal(config, 1, {.host_nbytes = kGiB, .device_nbytes = tensors, .device = "abacus:0"});
  EXPECT_TRUE(contains(staging, " for checkpoints on the host exceeds ")) << staging;
}

TEST(MemoryFit, TheLargestBatchThatFitsIsExact) {
  Config config = of_preset("tiny");
  config.checkpoint.every = 0;
  config.train.batch = 16;
  const auto peak_of = [&](std::int64_t batch) {
    Config of = config;
    of.train.batch = batch;
    return predicted_peak(of, 1);
  };
  EXPECT_EQ(largest_batch(config, 1, peak_of(16)), 16);
  EXPECT_EQ(largest_batch(config, 1, peak_of(16) - 1), 15);
  EXPECT_EQ(largest_batch(config, 1, peak_of(5)), 5);
  EXPECT_EQ(largest_batch(config, 1, 1000), std::nullopt);
  config.train.accumulate = 2;
  EXPECT_EQ(largest_batch(config, 1, peak_of(6)), 6);
}

TEST(MemoryFit, AdviceAfterAStepWithoutMemoryNamesABatch) {
  Config config = of_preset("1b");
  config.train.batch = 4096;
  const std::string advice = batch_advice(config, 1, tensor::host_device());
  EXPECT_TRUE(contains(advice, "--train.batch ") || contains(advice, "no batch fits")) << advice;
  EXPECT_TRUE(contains(advice, " per rank on host")) << advice;
}

class MemoryOfRuns : public testing::ToldRuns {};

TEST_F(MemoryOfRuns, AStartThatDoesNotFitIsRefusedUnlessForced) {
  Config large = config();
  large.model.layers = 4000;
  large.model.width = 4096;  // 3 TiB of state
  expect_error<InvalidArgument>([&] { (void)run_and(large); },
                                {"train: predicted peak ", " free on host", "--force starts anyway"});
  EXPECT_FALSE(std::filesystem::exists(path()));
  simulate(2, [&] {
    expect_error<InvalidArgument>([&] { (void)run(large, nullptr); }, {" for 2 ranks on this host, exceeds "});
  });
  EXPECT_FALSE(std::filesystem::exists(path()));
  large.run.force = true;
  EXPECT_NO_THROW(check_memory(large, 1, host_limits(1)));
}

}  // namespace
}  // namespace tessera::train
