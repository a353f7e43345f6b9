#include "tessera/comm/detail/circles.h"

#include <gtest/gtest.h>

namespace tessera::comm::detail {
namespace {

class CirclesOfWaits : public ::testing::Test {
 protected:
  void wait(int rank, int peer) {
    circles_.enter(Rank(rank), {Rank(peer), &word_, 1, &goes_on_, "g" + std::to_string(rank)});
  }
  std::atomic<std::uint64_t> word_{0};
  const std::function<bool()> goes_on_ = [] { return false; };
  Circles circles_;
};

TEST_F(CirclesOfWaits, AreFoundWithAllThatIsInThem) {
  wait(0, 1);
  wait(1, 2);
  EXPECT_EQ(circles_.of(Rank(0)), "");
  wait(2, 0);
  EXPECT_EQ(circles_.of(Rank(0)),
            "rank 0 waits for rank 1 in g0, rank 1 waits for rank 2 in g1, rank 2 waits for rank 0 in g2");
}

TEST_F(CirclesOfWaits, DoNotHoldWhoOnlyWaitsForOne) {
  wait(0, 1);
  wait(1, 2);
  wait(2, 1);
  EXPECT_EQ(circles_.of(Rank(0)), "");
  EXPECT_NE(circles_.of(Rank(1)), "");
}

TEST_F(CirclesOfWaits, AreNoneOnceAWordHasCome) {
  std::atomic<std::uint64_t> come{1};
  wait(0, 1);
  circles_.enter(Rank(1), {Rank(0), &come, 1, &goes_on_, "g"});
  EXPECT_EQ(circles_.of(Rank(0)), "");
}

TEST_F(CirclesOfWaits, AreNoneWhereAWaitIsAboutToEnd) {
  const std::function<bool()> was_aborted = [] { return true; };
  wait(0, 1);
  circles_.enter(Rank(1), {Rank(0), &word_, 1, &was_aborted, "g"});
  EXPECT_EQ(circles_.of(Rank(0)), "");
}

TEST_F(CirclesOfWaits, AreNoneOnceOneHasLeft) {
  wait(0, 1);
  wait(1, 0);
  circles_.leave(Rank(1));
  EXPECT_EQ(circles_.of(Rank(0)), "");
}

}  // namespace
}  // namespace tessera::comm::detail
