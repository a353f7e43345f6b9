#include "tessera/ops/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <vector>

#include "tessera/base/rank.h"

namespace tessera::ops::detail {
namespace {

class Budget : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    before_ = thread_budget();
    set_thread_budget(GetParam());
  }
  void TearDown() override { set_thread_budget(before_); }

 private:
  int before_ = 1;
};

TEST_P(Budget, EveryPieceRunsOnceWithTheSameEnds) {
  for (const std::int64_t count : {0, 1, 7, 8, 9, 1000}) {
    std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
    parallel_for(count, 8, [&](std::int64_t begin, std::int64_t end) {
      EXPECT_EQ(begin % 8, 0);
      EXPECT_EQ(end, std::min(begin + 8, count));
      for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
    });
    for (const auto& times : seen) EXPECT_EQ(times, 1);
  }
}

TEST_P(Budget, ALoopRequestsNoMoreHelpersThanItHasPieces) {
  const std::uint64_t before = helpers_requested();
  std::atomic<int> runs = 0;
  parallel_for(2, 1, [&](std::int64_t, std::int64_t) { ++runs; });
  EXPECT_EQ(runs, 2);
  EXPECT_LE(helpers_requested() - before, 1U);
}

TEST_P(Budget, ManyShortLoopsRunAllTheirPieces) {
  std::atomic<std::int64_t> runs = 0;
  for (int i = 0; i < 2000; ++i) parallel_for(1 + i % 9, 1, [&](std::int64_t, std::int64_t) { ++runs; });
  std::int64_t expected = 0;
  for (int i = 0; i < 2000; ++i) expected += 1 + i % 9;
  EXPECT_EQ(runs, expected);
}

TEST_P(Budget, TheErrorOfTheFirstPieceIsThrown) {
  try {
    parallel_for(100, 1, [](std::int64_t begin, std::int64_t) {
      if (begin >= 3) throw std::runtime_error(std::to_string(begin));
    });
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "3");
  }
}

TEST_P(Budget, ALoopInsideALoopRuns) {
  std::atomic<std::int64_t> sum = 0;
  parallel_for(16, 1, [&](std::int64_t, std::int64_t) {
    parallel_for(16, 1, [&](std::int64_t begin, std::int64_t) { sum += begin; });
  });
  EXPECT_EQ(sum, 16 * 120);
}

TEST_P(Budget, HelpersWorkForTheRankAndDoNotKeepIt) {
  auto rank = std::make_shared<RankContext>(RankPlace{.rank = Rank{3}, .world_size = 4});
  const std::weak_ptr<RankContext> seen = rank;
  {
    const RankScope scope(std::move(rank));
    set_thread_budget(GetParam());
    parallel_for(100, 1, [](std::int64_t, std::int64_t) { EXPECT_EQ(current_place().rank, Rank{3}); });
  }
  EXPECT_TRUE(seen.expired());
}

INSTANTIATE_TEST_SUITE_P(Threads, Budget, ::testing::Values(1, 2, 5));

}  // namespace
}  // namespace tessera::ops::detail
