#include "tessera/nn/optim/schedule.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::nn {
namespace {

TEST(Schedule, RisesInEqualPartsAndFallsAlongHalfACosine) {
  const Schedule schedule{.kind = "cosine", .warmup = 4, .floor = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 8, 1, 104), 2);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 8, 4, 104), 8);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 8, 54, 104), 8 * 0.55);
  EXPECT_NEAR(learning_rate(schedule, 8, 104, 104), 0.8, 1e-12);
}

TEST(Schedule, StaysAndThenFallsInAStraightLine) {
  const Schedule schedule{.kind = "wsd", .warmup = 2, .decay = 0.2, .floor = 0};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1, 80, 100), 1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1, 90, 100), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1, 100, 100), 0);
}

TEST(Schedule, WarmUpThatIsLongerThanWhatIsLeftComesFirst) {
  const Schedule schedule{.kind = "wsd", .warmup = 90, .decay = 0.2, .floor = 0};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 90, 89, 100), 89);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 90, 95, 100), 45);
}

TEST(Schedule, RejectsOtherStepsAndKinds) {
  expect_error<InvalidArgument>([] { (void)learning_rate({}, 1, 0, 10); }, {"step must be in [1, 10], got 0"});
}

}  // namespace
}  // namespace tessera::nn
