// Every driver call and every upstream call of a program that covers the allocator fails in turn.
// testing/fault_program.h describes the required final state.
#include <gtest/gtest.h>

#include "tessera/memory/testing/fault_program.h"

namespace tessera::memory {
namespace {

Policy small_policy(bool is_expandable) {
  Policy policy;
  policy.expandable = is_expandable;
  policy.granule_nbytes = std::size_t{64} << 10;
  policy.shared_segment_nbytes = std::size_t{4} << 20;
  return policy;
}

TEST(FaultSweep, EveryDriverCallMayFail) {
  for (const bool is_expandable : {true, false}) {
    std::uint64_t count = 0;
    EXPECT_EQ(testing::sweep_driver_faults(small_policy(is_expandable), 1, count), "");
    EXPECT_GT(count, 100U);
  }
}

TEST(FaultSweep, EveryUpstreamCallMayFail) {
  for (const bool is_expandable : {true, false}) {
    std::uint64_t count = 0;
    EXPECT_EQ(testing::sweep_upstream_faults(small_policy(is_expandable), 1, count), "");
    EXPECT_GT(count, 20U);
  }
}

}  // namespace
}  // namespace tessera::memory
