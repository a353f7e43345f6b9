// Random programs and faults, a few of each: the long runs are allocator_fuzz and fault_sweep_test.
#include <gtest/gtest.h>

#include "tessera/device/host/host_device.h"
#include "tessera/memory/testing/allocator_program.h"
#include "tessera/memory/testing/fault_program.h"
#include "tessera/memory/testing/history_ground.h"

namespace tessera::memory::suite {
namespace {

TEST(AllocatorPrograms, KeepOrderAndValues) {
  memory::testing::AllocatorProgramCounts counts;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    ASSERT_EQ(memory::testing::check_allocator_program(seed, &counts), "") << "seed " << seed;
  }
  EXPECT_GT(counts.values_compared, 1500U);
  EXPECT_GT(counts.out_of_memory, 50U);
  EXPECT_GT(counts.device_waits, 10U);
  EXPECT_GT(counts.covered_reuses, 500U);
  EXPECT_GT(counts.capture_reuses, 50U);
  EXPECT_GT(counts.moves, 20U);
  EXPECT_GT(counts.captures, 300U);
  EXPECT_GT(counts.replays, 150U);
  EXPECT_GT(counts.refused_replays, 20U);
  EXPECT_GT(counts.restores, 10U);
}

TEST(AllocatorPrograms, SurviveFaults) {
  Policy policy;
  policy.granule_nbytes = std::size_t{64} << 10;
  std::uint64_t count = 0;
  EXPECT_EQ(memory::testing::sweep_driver_faults(policy, 7, count), "");
}

TEST(AllocatorPrograms, LeaveAHistoryThatTellsWhatIsLive) {
  const memory::testing::RecordedRank rank;
  const Device device = device::host::make_host_device();
  const Allocator allocator(device);
  const Stream one = device.create_stream();
  const Stream two = device.create_stream();
  const Buffer old = allocator.allocate(1000, one);  // the ring has long overwritten its allocation
  std::vector<Buffer> held;
  memory::testing::churn(allocator, 1, 20000, one, two, held);
  EXPECT_EQ(memory::testing::recorded_blocks(rank.path()), memory::testing::blocks_to_record(allocator.snapshot()));
}

}  // namespace
}  // namespace tessera::memory::suite
