#include "tessera/device/clock.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tessera::device {
namespace {

TEST(VectorClock, CoversNothingAtFirst) {
  const VectorClock clock;
  EXPECT_TRUE(clock.covers(StreamId(3), Tick(0)));
  EXPECT_FALSE(clock.covers(StreamId(3), Tick(1)));
}

TEST(VectorClock, RaisingNeverLowers) {
  VectorClock clock;
  clock.raise(StreamId(2), Tick(5));
  clock.raise(StreamId(2), Tick(3));
  EXPECT_EQ(clock.at(StreamId(2)), Tick(5));
  EXPECT_EQ(clock.at(StreamId(1)), Tick(0));
}

TEST(VectorClock, MergeTakesTheLaterOfEachEntryWhateverTheLengths) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 500; ++round) {
    VectorClock one;
    VectorClock two;
    std::map<std::uint32_t, std::uint64_t> expected;
    for (int i = 0; i < 20; ++i) {
      const auto stream = static_cast<std::uint32_t>(random() % 40);
      const auto tick = random() % 100;
      (random() % 2 == 0 ? one : two).raise(StreamId(stream), Tick(tick));
      expected[stream] = std::max(expected[stream], tick);
    }
    one.merge(two);
    for (std::uint32_t stream = 0; stream < 45; ++stream) {
      const auto it = expected.find(stream);
      EXPECT_EQ(one.at(StreamId(stream)).value(), it == expected.end() ? 0 : it->second);
    }
  }
}

TEST(VectorClock, TrailingZerosDoNotMatterForEquality) {
  VectorClock one;
  VectorClock two;
  two.raise(StreamId(9), Tick(0));
  EXPECT_EQ(one, two);
  two.raise(StreamId(9), Tick(1));
  EXPECT_FALSE(one == two);
}

}  // namespace
}  // namespace tessera::device
