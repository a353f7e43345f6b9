// The rank of a thread: scopes, inheritance by threads, and the parts of a rank.
#include "tessera/base/rank.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <stdexcept>

namespace tessera {
namespace {

std::shared_ptr<RankContext> make_rank(int rank, int world_size) {
  return std::make_shared<RankContext>(RankPlace{.rank = Rank(rank), .world_size = world_size});
}

template <int N>
struct Part {
  explicit Part(std::vector<int>& to) : log(&to) {}
  ~Part() { log->push_back(N); }
  std::vector<int>* log;
};

TEST(Rank, IsAWorldOfOneUntilToldOtherwise) {
  EXPECT_EQ(current_place().rank, Rank(0));
  EXPECT_EQ(current_place().world_size, 1);
  EXPECT_EQ(current_place().local_world_size, 1);
  EXPECT_TRUE(current_place().run_dir.empty());
}

TEST(Rank, ScopeEntersAndReturns) {
  const auto outside = current_rank();
  {
    const RankScope one(make_rank(1, 4));
    EXPECT_EQ(current_place().rank, Rank(1));
    {
      const RankScope two(make_rank(2, 4));
      EXPECT_EQ(current_place().rank, Rank(2));
    }
    EXPECT_EQ(current_place().rank, Rank(1));
  }
  EXPECT_EQ(current_rank(), outside);
}

TEST(Rank, ScopeReturnsWhenAnExceptionPasses) {
  const auto outside = current_rank();
  try {
    const RankScope scope(make_rank(1, 2));
    throw std::runtime_error("x");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(current_rank(), outside);
}

TEST(Rank, ThreadsInheritTheRankOfTheirStarter) {
  const auto rank = make_rank(3, 8);
  std::shared_ptr<RankContext> seen;
  std::shared_ptr<RankContext> seen_deeper;
  {
    const RankScope scope(rank);
    Thread thread("worker", [&] {
      seen = current_rank();
      Thread("deeper", [&] { seen_deeper = current_rank(); }).join();
    });
  }
  EXPECT_EQ(seen, rank);
  EXPECT_EQ(seen_deeper, rank);
}

TEST(Rank, PlainThreadsDoNotInherit) {
  const RankScope scope(make_rank(3, 8));
  int world_size = 0;
  std::thread([&] { world_size = current_place().world_size; }).join();
  EXPECT_EQ(world_size, 1);
}

TEST(Rank, RanksOfOneProcessAreApart) {
  std::array<int, 4> seen = {};
  {
    std::vector<Thread> threads;
    for (int i = 0; i < 4; ++i) {
      const RankScope scope(make_rank(i, 4));
      threads.emplace_back("rank", [&seen, i] {
        seen[static_cast<std::size_t>(i)] =
            current_rank()->part<int>([i] { return std::make_shared<int>(i * 10); }) + current_place().rank.value();
      });
    }
  }
  EXPECT_EQ(seen, (std::array<int, 4>{0, 11, 22, 33}));
}

TEST(RankContext, MakesAPartOnceAndFindsIt) {
  RankContext rank(RankPlace{});
  EXPECT_EQ(rank.find_part<int>(), nullptr);
  int made = 0;
  const auto make = [&] { return std::make_shared<int>(++made); };
  int& part = rank.part<int>(make);
  EXPECT_EQ(&rank.part<int>(make), &part);
  EXPECT_EQ(rank.find_part<int>(), &part);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(rank.find_part<double>(), nullptr);
}

TEST(RankContext, DestroysPartsLastMadeFirst) {
  std::vector<int> order;
  {
    RankContext rank(RankPlace{});
    rank.part<Part<1>>([&] { return std::make_shared<Part<1>>(order); });
    rank.part<Part<3>>([&] {
      rank.part<Part<2>>([&] { return std::make_shared<Part<2>>(order); });  // needed by 3, so it outlives 3
      return std::make_shared<Part<3>>(order);
    });
  }
  EXPECT_EQ(order, (std::vector<int>{3, 2, 1}));
}

TEST(RankContext, APartThatFailsToBeMadeCanBeTriedAgain) {
  RankContext rank(RankPlace{});
  EXPECT_THROW(rank.part<int>([]() -> std::shared_ptr<int> { throw std::runtime_error("x"); }), std::runtime_error);
  EXPECT_EQ(rank.find_part<int>(), nullptr);
  EXPECT_EQ(rank.part<int>([] { return std::make_shared<int>(5); }), 5);
}

TEST(RankContext, ThreadsThatAskAtOnceGetTheSamePart) {
  const auto rank = make_rank(0, 1);
  std::atomic<int> made = 0;
  std::array<int*, 4> got = {};
  {
    const RankScope scope(rank);
    std::vector<Thread> threads;
    for (int*& slot : got) {
      threads.emplace_back("asker", [&slot, &made] {
        slot = &current_rank()->part<int>([&] { return std::make_shared<int>(made.fetch_add(1)); });
      });
    }
  }
  EXPECT_EQ(made.load(), 1);
  for (int* slot : got) EXPECT_EQ(slot, got[0]);
}

TEST(RankContext, LivesAsLongAsSomeoneWorksForIt) {
  std::weak_ptr<RankContext> watch;
  {
    auto rank = make_rank(0, 1);
    watch = rank;
    const RankScope scope(std::move(rank));
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
}

TEST(RankContext, PartsEndAsPartsOfTheirRank) {
  struct Part {
    explicit Part(Rank& ended) : ended_as(ended) {}
    ~Part() { ended_as = current_place().rank; }
    Rank& ended_as;
  };
  Rank ended_as(0);
  auto rank = make_rank(3, 4);
  rank->part<Part>([&] { return std::make_shared<Part>(ended_as); });
  rank.reset();
  EXPECT_EQ(ended_as, Rank(3));
  EXPECT_EQ(current_place().rank, Rank(0));
}

TEST(Thread, JoinsInItsDestructorAndBeforeItIsReplaced) {
  std::atomic<int> done = 0;
  {
    Thread thread("first", [&] { ++done; });
    thread = Thread("second", [&] { ++done; });
    EXPECT_GE(done.load(), 1);
    EXPECT_TRUE(thread.joinable());
  }
  EXPECT_EQ(done.load(), 2);
  EXPECT_FALSE(Thread().joinable());
}

}  // namespace
}  // namespace tessera
