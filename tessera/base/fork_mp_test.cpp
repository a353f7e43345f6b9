// Inheritance in a forked child: the objects, but neither their threads nor the rank.
#include "tessera/base/fork.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <latch>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera {
namespace {

// Returns true if `body` returns true in a forked child.
bool holds_in_child(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    bool holds = false;
    try {
      holds = body();
    } catch (...) {
      holds = false;
    }
    ::_exit(holds ? 0 : 1);
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

TEST(OwnerProcess, IsNotTheForkedChild) {
  const OwnerProcess owner;
  EXPECT_TRUE(owner.is_this());
  EXPECT_NO_THROW(owner.check("it"));
  EXPECT_TRUE(holds_in_child([&] {
    expect_error<NotSupported>([&] { owner.check("it"); }, {"it: must be used in the process that created it", "exec"});
    const OwnerProcess own;
    return !owner.is_this() && own.is_this() && !::testing::Test::HasFailure();
  }));
  EXPECT_TRUE(owner.is_this());
}

TEST(PerProcess, IsMadeOnceByEachProcess) {
  static PerProcess<int> number;  // never destroyed, as all PerProcess objects
  EXPECT_EQ(number.find(), nullptr);
  number.get() = 7;
  EXPECT_EQ(*number.find(), 7);
  EXPECT_TRUE(holds_in_child([&] { return number.find() == nullptr && number.get() == 0; }));
  EXPECT_EQ(number.get(), 7);
}

struct Part {
  int number = 0;
};

TEST(ForkedChild, HasARankOfItsOwn) {
  const std::shared_ptr<RankContext> rank = current_rank();
  rank->part<Part>([] { return std::make_shared<Part>(Part{7}); });
  EXPECT_TRUE(holds_in_child([&] {
    EXPECT_THROW((void)rank->find_part<Part>(), NotSupported);
    return current_rank() != rank && current_rank()->find_part<Part>() == nullptr && !::testing::Test::HasFailure();
  }));
  EXPECT_EQ(rank->find_part<Part>()->number, 7);
}

TEST(ForkedChild, OfAThreadWithARankOfItsOwnIsAWorldOfOne) {
  const auto rank = std::make_shared<RankContext>(RankPlace{.rank = Rank(2), .world_size = 4});
  rank->part<Part>([] { return std::make_shared<Part>(Part{7}); });
  const RankScope scope(rank);  // as in a thread of simulate()
  EXPECT_TRUE(holds_in_child([&] {
    return current_rank() != rank && current_place().world_size == 1 && current_rank()->find_part<Part>() == nullptr;
  }));
  EXPECT_EQ(current_place().world_size, 4);
  EXPECT_EQ(rank->find_part<Part>()->number, 7);
}

TEST(ForkedChild, DoesNotJoinThreadsOfItsParent) {
  std::latch is_over(1);
  Thread thread("waits", [&] { is_over.wait(); });
  EXPECT_TRUE(holds_in_child([&] {
    thread.join();
    return !thread.joinable();
  }));
  is_over.count_down();
  thread.join();
}

}  // namespace
}  // namespace tessera
