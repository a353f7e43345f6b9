#include "tessera/train/testing/stepping_ranks.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/train/testing/runs.h"

namespace tessera::train::testing {
namespace {

TEST(SteppingRanks, TakeStepsOfTwoRunsInTurns) {
  const Config config = resolved(small_config(), 1);
  SteppingRanks one(config, 2);
  SteppingRanks two(on_mesh(config, 2, 1, 1), 1);
  for (int round = 0; round < 3; ++round) {
    EXPECT_GT(one.milliseconds_per_step(2), 0);
    EXPECT_GT(two.milliseconds_per_step(1), 0);
  }
}

TEST(SteppingRanks, RethrowTheErrorOfARank) {
  Config config = resolved(small_config(), 1);
  config.optimizer.learning_rate = 1e30;  // the loss soon becomes infinite, and the policy is to stop
  SteppingRanks ranks(config, 1);
  EXPECT_THROW(ranks.milliseconds_per_step(20), Error);
  EXPECT_THROW(ranks.milliseconds_per_step(1), Error);
}

TEST(SteppingRanks, StopWithoutARequest) { const SteppingRanks ranks(resolved(small_config(), 1), 1); }

}  // namespace
}  // namespace tessera::train::testing
