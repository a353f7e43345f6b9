#include "tessera/comm/launch/detail/core_shares.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::comm::detail {
namespace {

using Shares = std::vector<std::vector<int>>;

// Two NUMA nodes with two physical cores of two hardware threads each, numbered as kernels often do: second threads
// last.
const std::vector<CorePlace> kTwoNodes = {{0, 0, 0}, {0, 1, 1}, {1, 0, 2}, {1, 1, 3},
                                          {0, 0, 4}, {0, 1, 5}, {1, 0, 6}, {1, 1, 7}};

TEST(CoreShares, KeepNeighboursTogether) {
  EXPECT_EQ(divide_cores(kTwoNodes, 1), (Shares{{0, 4, 1, 5, 2, 6, 3, 7}}));
  EXPECT_EQ(divide_cores(kTwoNodes, 2), (Shares{{0, 4, 1, 5}, {2, 6, 3, 7}}));
  EXPECT_EQ(divide_cores(kTwoNodes, 4), (Shares{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

TEST(CoreShares, DifferByAtMostOneAndLeaveNoCoreOut) {
  EXPECT_EQ(divide_cores(kTwoNodes, 3), (Shares{{0, 4}, {1, 5, 2}, {6, 3, 7}}));
}

TEST(CoreShares, OfMoreRanksThanCoresAreRejected) {
  expect_error<InvalidArgument>([] { (void)divide_cores(kTwoNodes, 9); }, {"9 ranks", "8 cores", "fewer ranks"});
}

TEST(CoreShares, OfUnknownCoresAreRejected) {
  expect_error<NotSupported>([] { (void)divide_cores({}, 1); }, {"cores of this process are unknown"});
}

}  // namespace
}  // namespace tessera::comm::detail
