#include "tessera/comm/detail/deadlock_detector.h"

#include <gtest/gtest.h>

namespace tessera::comm::detail {
namespace {

class WaitCycles : public ::testing::Test {
 protected:
  void wait(int rank, int peer) {
    cycles_.enter(Rank(rank), {Rank(peer), &word_, 1, &goes_on_, "g" + std::to_string(rank)});
  }
  std::atomic<std::uint64_t> word_{0};
  const std::function<bool()> goes_on_ = [] { return false; };
  DeadlockDetector cycles_;
};

TEST_F(WaitCycles, AreFoundWithAllThatIsInThem) {
  wait(0, 1);
  wait(1, 2);
  EXPECT_EQ(cycles_.of(Rank(0)), "");
  wait(2, 0);
  EXPECT_EQ(cycles_.of(Rank(0)),
            "rank 0 waits for rank 1 in g0, rank 1 waits for rank 2 in g1, rank 2 waits for rank 0 in g2");
}

TEST_F(WaitCycles, DoNotHoldWhoOnlyWaitsForOne) {
  wait(0, 1);
  wait(1, 2);
  wait(2, 1);
  EXPECT_EQ(cycles_.of(Rank(0)), "");
  EXPECT_NE(cycles_.of(Rank(1)), "");
}

TEST_F(WaitCycles, AreNoneOnceAWordHasCome) {
  std::atomic<std::uint64_t> come{1};
  wait(0, 1);
  cycles_.enter(Rank(1), {Rank(0), &come, 1, &goes_on_, "g"});
  EXPECT_EQ(cycles_.of(Rank(0)), "");
}

TEST_F(WaitCycles, AreNoneWhereAWaitIsAboutToEnd) {
  const std::function<bool()> was_aborted = [] { return true; };
  wait(0, 1);
  cycles_.enter(Rank(1), {Rank(0), &word_, 1, &was_aborted, "g"});
  EXPECT_EQ(cycles_.of(Rank(0)), "");
}

TEST_F(WaitCycles, AreNoneOnceOneHasLeft) {
  wait(0, 1);
  wait(1, 0);
  cycles_.leave(Rank(1));
  EXPECT_EQ(cycles_.of(Rank(0)), "");
}

}  // namespace
}  // namespace tessera::comm::detail
