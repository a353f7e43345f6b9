// Conversion of ticks to wall time: between, before and after the samples, across a step of the wall clock, and with
// invalid values in the file.
#include <gtest/gtest.h>

#include <limits>

#include "tessera/base/probe/tsc_clock.h"

namespace tessera::probe {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

// Three ticks per nanosecond, started at tick 1000 and at wall time 50 s.
ClockCalibration three_gigahertz() {
  ClockCalibration clock;
  clock.source = ClockSource::kTsc;
  clock.ticks_per_second = 3'000'000'000;
  clock.first = {1000, 50 * kSecond, 7 * kSecond};
  clock.last = clock.first;
  return clock;
}

TEST(Clock, OneSampleUsesTheStatedRate) {
  const ClockCalibration clock = three_gigahertz();
  EXPECT_FALSE(clock.is_refined());
  EXPECT_EQ(clock.wall_ns(1000), 50 * kSecond);
  EXPECT_EQ(clock.wall_ns(1000 + 3'000'000'000), 51 * kSecond);
  EXPECT_EQ(clock.wall_ns(1000 - 300), 50 * kSecond - 100);
}

TEST(Clock, TwoSamplesCorrectTheRate) {
  ClockCalibration clock = three_gigahertz();
  clock.ticks_per_second = 2'900'000'000;  // measured badly at the start
  clock.last = {1000 + 30'000'000'000, 60 * kSecond, 17 * kSecond};
  EXPECT_TRUE(clock.is_refined());
  EXPECT_EQ(clock.wall_ns(1000), 50 * kSecond);
  EXPECT_EQ(clock.wall_ns(1000 + 15'000'000'000), 55 * kSecond);
  EXPECT_EQ(clock.wall_ns(1000 + 60'000'000'000), 70 * kSecond);
  EXPECT_EQ(clock.duration_ns(3'000), 1'000);
}

TEST(Clock, SamplesTooCloseTogetherDoNotSpoilTheRate) {
  ClockCalibration clock = three_gigahertz();
  clock.last = {1000 + 3'000, 50 * kSecond + 1'700, 7 * kSecond + 1'700};  // 1 us apart, read 700 ns late
  EXPECT_FALSE(clock.is_refined());
  EXPECT_EQ(clock.wall_ns(4'000 + 3'000'000'000), 51 * kSecond + 1'700);
}

TEST(Clock, AStepOfTheWallClockMovesTimesAndNotDurations) {
  ClockCalibration clock = three_gigahertz();
  clock.last = {1000 + 30'000'000'000, 60 * kSecond + 3600 * kSecond, 17 * kSecond};
  EXPECT_EQ(clock.duration_ns(3'000'000'000), kSecond);
  EXPECT_EQ(clock.wall_ns(1000), 50 * kSecond + 3600 * kSecond);
}

TEST(Clock, NonsenseDoesNotOverflow) {
  ClockCalibration clock = three_gigahertz();
  clock.ticks_per_second = 1;
  clock.last.wall_ns = std::numeric_limits<std::int64_t>::max();
  EXPECT_GT(clock.wall_ns(std::numeric_limits<std::uint64_t>::max() / 2), 0);
  clock.ticks_per_second = 0;
  EXPECT_EQ(clock.wall_ns(5), std::numeric_limits<std::int64_t>::max());
  clock.first.monotonic_ns = std::numeric_limits<std::int64_t>::min();
  clock.last.monotonic_ns = std::numeric_limits<std::int64_t>::max();
  clock.last.ticks = std::numeric_limits<std::uint64_t>::max();
  clock.ticks_per_second = 1;
  EXPECT_LE(clock.wall_ns(0), clock.last.wall_ns);
}

TEST(Clock, TicksAdvanceAndSamplesAgreeWithThem) {
  for (const ClockSource source : {best_clock_source(), ClockSource::kSystem}) {
    const std::uint64_t before = read_ticks(source);
    const ClockSample sample = sample_clock(source);
    const std::uint64_t after = read_ticks(source);
    EXPECT_LE(before, sample.ticks);
    EXPECT_LE(sample.ticks, after);
    EXPECT_GT(ticks_per_second(source), 100'000'000U);
  }
}

}  // namespace
}  // namespace tessera::probe
