// The choice of a device per rank.
#include "tessera/comm/device_of_rank.h"

#include <gtest/gtest.h>

#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"

namespace tessera::comm {
namespace {

TEST(DeviceOfRank, EachProcessHasADeviceAndThreadsShareTheFirst) {
  struct Case {
    const char* what;
    DeviceShares shares;
    std::optional<std::size_t> want;
  };
  for (const Case& each : {
           Case{"no device", {.devices = 0}, std::nullopt},
           Case{"one rank", {.devices = 1}, 0},
           Case{"one rank of many devices", {.devices = 8}, 0},
           Case{"a rank per device", {.devices = 8, .local_rank = 5, .local_world_size = 8}, 5},
           Case{"more devices than ranks", {.devices = 8, .local_rank = 1, .local_world_size = 2}, 1},
           Case{"fewer devices than ranks", {.devices = 1, .local_rank = 0, .local_world_size = 2}, std::nullopt},
           Case{"fewer, in the last rank", {.devices = 4, .local_rank = 7, .local_world_size = 8}, std::nullopt},
           Case{"threads", {.devices = 1, .local_rank = 3, .local_world_size = 4, .are_threads = true}, 0},
           Case{"threads with many devices",
                {.devices = 8, .local_rank = 3, .local_world_size = 4, .are_threads = true},
                0},
           Case{"a device of its own", {.devices = 1, .local_rank = 3, .local_world_size = 4, .has_own_view = true}, 0},
           Case{"all devices in each rank",
                {.devices = 4, .local_rank = 3, .local_world_size = 4, .has_own_view = true},
                3},
       }) {
    EXPECT_EQ(device_of_rank(each.shares), each.want) << each.what;
  }
}

TEST(DeviceOfRank, LaunchersThatLimitDevicesPerRankAreKnown) {
  const EnvironmentMap visible = {{"CUDA_VISIBLE_DEVICES", "0"}};
  const auto with = [&](EnvironmentMap more) {
    more.insert(visible.begin(), visible.end());
    return more;
  };
  const EnvironmentMap slurm = {{"SLURM_PROCID", "1"},
                                {"SLURM_STEP_ID", "0"},
                                {"SLURM_STEP_NUM_TASKS", "2"},
                                {"SLURM_LOCALID", "1"},
                                {"SLURM_STEP_TASKS_PER_NODE", "2"},
                                {"SLURM_NODEID", "0"},
                                {"SLURM_JOB_ID", "7"}};
  const EnvironmentMap ours = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"TESSERA_STORE", "tcp://127.0.0.1:29500"}};
  EXPECT_TRUE(has_own_devices(with(slurm)));
  EXPECT_FALSE(has_own_devices(slurm)) << "all ranks see all devices";
  EXPECT_FALSE(has_own_devices(with(ours))) << "the ranks have the environment of the command";
  EXPECT_FALSE(has_own_devices(visible)) << "one rank";
}

TEST(DeviceOfRank, ErrorsNameTheKind) {
  expect_error<NotSupported>([] { (void)device_of_rank("abacus"); }, {"device abacus", "not available"});
}

TEST(DeviceOfRank, AWorldOfOneRankNeedsNoBackend) {
  EXPECT_EQ(why_not_connected("abacus"), "");
  simulate(2, [] {
    EXPECT_EQ(why_not_connected("host"), "");
    EXPECT_EQ(why_not_connected("abacus"), "no backend connects ranks with memory of abacus");
  });
}

}  // namespace
}  // namespace tessera::comm
