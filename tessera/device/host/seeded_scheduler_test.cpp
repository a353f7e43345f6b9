// One participant runs at a time, in an order that follows the seed, in virtual time; deadlocks are reported with
// details.
#include "tessera/device/host/seeded_scheduler.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/device/host/host_device.h"

namespace tessera::device::host {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Three threads write their letters; only the baton protects the data.
std::pair<std::string, std::uint64_t> write_letters(std::uint64_t seed) {
  const auto scheduler = SeededScheduler::create(seed);
  const SeededScheduler::Participant main(scheduler, "main");
  std::string text;
  std::vector<std::uint64_t> threads;
  for (const char letter : {'a', 'b', 'c'}) {
    threads.push_back(scheduler->spawn(std::string(1, letter), [&, letter] {
      for (int i = 0; i < 6; ++i) {
        text += letter;
        scheduler->yield();
      }
    }));
  }
  for (const std::uint64_t thread : threads) scheduler->join(thread);
  return {text, scheduler->order_hash()};
}

TEST(SeededScheduler, SameSeedGivesTheSameOrder) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto first = write_letters(seed);
    EXPECT_EQ(first, write_letters(seed)) << "seed " << seed;
    EXPECT_EQ(first.first.size(), 18u);
  }
}

TEST(SeededScheduler, DifferentSeedsGiveManyOrders) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 50; ++seed) orders.insert(write_letters(seed).first);
  EXPECT_GT(orders.size(), 45u);
}

TEST(SeededScheduler, TimeIsVirtual) {
  const auto scheduler = SeededScheduler::create(1);
  const SeededScheduler::Participant main(scheduler, "main");
  std::vector<std::string> order;
  const auto sleeper = [&](const char* name, nanoseconds time) {
    return scheduler->spawn(name, [&order, &scheduler, name, time] {
      EXPECT_FALSE(scheduler->wait_until([] { return false; }, time, "its time"));
      order.emplace_back(name);
    });
  };
  const auto late = sleeper("late", hours(30));
  const auto early = sleeper("early", hours(10));
  scheduler->join(late);
  scheduler->join(early);
  EXPECT_EQ(order, (std::vector<std::string>{"early", "late"}));
  EXPECT_EQ(scheduler->now(), hours(30));
}

TEST(SeededScheduler, AConditionBeatsADeadline) {
  const auto scheduler = SeededScheduler::create(2);
  const SeededScheduler::Participant main(scheduler, "main");
  bool flag = false;
  const auto setter = scheduler->spawn("setter", [&] { flag = true; });
  EXPECT_TRUE(scheduler->wait_until([&] { return flag; }, milliseconds(1), "the flag"));
  EXPECT_EQ(scheduler->now(), nanoseconds(0));
  scheduler->join(setter);
}

TEST(SeededScheduler, JoinRethrowsWhatTheBodyThrew) {
  const auto scheduler = SeededScheduler::create(3);
  const SeededScheduler::Participant main(scheduler, "main");
  const auto thread = scheduler->spawn("thrower", [] { throw std::runtime_error("broken"); });
  EXPECT_THROW(scheduler->join(thread), std::runtime_error);
  EXPECT_THROW(scheduler->join(thread), InvalidArgument);
}

TEST(SeededScheduler, ADeadlockTellsEveryWaiterWhatAllWaitFor) {
  const auto scheduler = SeededScheduler::create(4);
  const SeededScheduler::Participant main(scheduler, "main");
  std::vector<std::string> reports;
  const auto stuck = [&](const char* name, const char* what) {
    return scheduler->spawn(name, [&, what] {
      try {
        scheduler->wait_until([] { return false; }, nanoseconds::max(), what);
      } catch (const DeviceError& error) {
        reports.emplace_back(error.what());
      }
    });
  };
  const auto one = stuck("one", "an apple");
  const auto two = stuck("two", "a pear");
  EXPECT_THROW(scheduler->wait_until([] { return false; }, nanoseconds::max(), "rain"), DeviceError);
  scheduler->join(one);
  scheduler->join(two);
  ASSERT_EQ(reports.size(), 2u);
  for (const std::string& report : reports) {
    for (const char* part : {"one waits for an apple", "two waits for a pear", "main waits for rain"}) {
      EXPECT_NE(report.find(part), std::string::npos) << report;
    }
  }
}

TEST(SeededScheduler, AParkedThreadIsNoPartOfADeadlock) {
  const auto scheduler = SeededScheduler::create(5);
  bool stop = false;
  bool woke_cleanly = false;
  std::uint64_t idle = 0;
  {
    const SeededScheduler::Participant main(scheduler, "main");
    idle = scheduler->spawn("idle", [&] {
      scheduler->park([&] { return stop; }, "work");
      woke_cleanly = true;
    });
    EXPECT_THROW(scheduler->wait_until([] { return false; }, nanoseconds::max(), "rain"), DeviceError);
    EXPECT_FALSE(woke_cleanly);
    stop = true;
  }
  scheduler->join(idle);  // from outside: no participant holds the baton
  EXPECT_TRUE(woke_cleanly);
}

TEST(SeededScheduler, SpawnedThreadsWorkForTheRankOfTheirMaker) {
  const auto scheduler = SeededScheduler::create(6);
  const SeededScheduler::Participant main(scheduler, "main");
  const RankScope scope(std::make_shared<RankContext>(RankPlace{.rank = Rank(2), .world_size = 4}));
  int seen = -1;
  scheduler->join(scheduler->spawn("thread", [&] { seen = current_place().rank.value(); }));
  EXPECT_EQ(seen, 2);
}

TEST(SeededScheduler, AThreadJoinsOnce) {
  const auto scheduler = SeededScheduler::create(7);
  EXPECT_FALSE(scheduler->is_participant());
  {
    const SeededScheduler::Participant main(scheduler, "main");
    EXPECT_TRUE(scheduler->is_participant());
    EXPECT_THROW(SeededScheduler::Participant(scheduler, "again"), InvalidArgument);
  }
  EXPECT_FALSE(scheduler->is_participant());
}

// A program with three streams that race for a shared list. Returns the resulting order.
std::pair<std::vector<int>, std::uint64_t> race(std::uint64_t seed) {
  const auto scheduler = SeededScheduler::create(seed);
  const SeededScheduler::Participant main(scheduler, "main");
  std::vector<int> order;
  {
    const Device device = make_host_device({.mode = Mode::kSeeded, .scheduler = scheduler});
    std::vector<Stream> streams;
    for (int i = 0; i < 3; ++i) streams.push_back(device.create_stream());
    for (int i = 0; i < 12; ++i) streams[static_cast<std::size_t>(i % 3)].run([&order, i] { order.push_back(i); });
    device.synchronize();
  }
  return {order, scheduler->order_hash()};
}

TEST(SeededDevice, SameSeedGivesTheSameOrder) {
  std::set<std::vector<int>> orders;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto first = race(seed);
    EXPECT_EQ(first, race(seed)) << "seed " << seed;
    orders.insert(first.first);
  }
  EXPECT_GT(orders.size(), 30u);
}

TEST(SeededDevice, RefusesAThreadItDoesNotKnow) {
  const Device device = make_host_device({.mode = Mode::kSeeded, .seed = 1});
  const Stream stream = device.create_stream();
  std::string text;
  Thread stranger("stranger", [&] {
    try {
      stream.run([] {});
    } catch (const InvalidArgument& error) {
      text = error.what();
    }
  });
  stranger.join();
  EXPECT_NE(text.find("SeededScheduler::spawn"), std::string::npos) << text;
  stream.synchronize();
}

TEST(SeededDevice, HoldsTimeOutInVirtualTime) {
  const Device device = make_host_device({.mode = Mode::kSeeded, .seed = 2});
  const Stream stream = device.create_stream({.name = "held"});
  const Hold hold = stream.hold(hours(1000));
  try {
    stream.synchronize();
    FAIL() << "the hold did not time out";
  } catch (const TimeoutError& error) {
    EXPECT_NE(std::string(error.what()).find("'held'"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(hold.timed_out());
}

TEST(SeededDevice, StreamsThatWaitForEachOtherAreReported) {
  const Device device = make_host_device({.mode = Mode::kSeeded, .seed = 3});
  const Stream one = device.create_stream({.name = "one"});
  const Stream two = device.create_stream({.name = "two"});
  const PinnedMemory memory = device.allocate_pinned(64);
  auto* words = reinterpret_cast<std::uint64_t*>(memory.data());
  one.wait_value(words, 1);
  one.write_value(words + 1, 1);
  two.wait_value(words + 1, 1);
  two.write_value(words, 1);
  std::string text;
  try {
    one.synchronize();
  } catch (const DeviceError& error) {
    text = error.what();
  }
  EXPECT_NE(text.find("one waits for the word"), std::string::npos) << text;
  EXPECT_NE(text.find("two waits for the word"), std::string::npos) << text;
  EXPECT_THROW(two.synchronize(), DeviceError);
}

TEST(SeededDevice, AStallMovesNothingUntilItEnds) {
  const Device device = make_host_device({.mode = Mode::kSeeded, .seed = 4});
  const Stream stream = device.create_stream();
  bool ran = false;
  device.stall_stream(stream, true);
  stream.run([&] { ran = true; });
  EXPECT_THROW(stream.synchronize(hours(1)), TimeoutError);
  EXPECT_FALSE(ran);
  device.stall_stream(stream, false);
  stream.synchronize();
  EXPECT_TRUE(ran);
}

TEST(SeededDevice, TwoDevicesShareOneOrder) {
  const auto run = [](std::uint64_t seed) {
    const auto scheduler = SeededScheduler::create(seed);
    const SeededScheduler::Participant main(scheduler, "main");
    std::string text;
    const auto work = [&](char letter) {
      const Device device = make_host_device({.mode = Mode::kSeeded, .scheduler = scheduler});
      const Stream stream = device.create_stream();
      for (int i = 0; i < 5; ++i) stream.run([&text, letter] { text += letter; });
      stream.synchronize();
    };
    const auto a = scheduler->spawn("rank a", [&] { work('a'); });
    const auto b = scheduler->spawn("rank b", [&] { work('b'); });
    scheduler->join(a);
    scheduler->join(b);
    return std::pair(text, scheduler->order_hash());
  };
  for (std::uint64_t seed = 0; seed < 20; ++seed) EXPECT_EQ(run(seed), run(seed)) << "seed " << seed;
}

}  // namespace
}  // namespace tessera::device::host
