// Captured and replayed steps are bitwise equal to eager ones.
#include <array>

#include "tessera/train/suite/train_suite.h"

namespace tessera::train::suite {
namespace {

void expect_same_replayed(const TrainImplementation& implementation, const Config& config) {
  for (const auto& [dp, fsdp, tp] : std::array<std::array<int, 3>, 3>{{{1, 1, 1}, {2, 1, 1}, {1, 2, 1}}}) {
    Config asked = testing::on_mesh(config, dp, fsdp, tp);
    const testing::Curve want = implementation.run(asked);
    ASSERT_EQ(static_cast<std::int64_t>(want.losses.size()), config.train.steps);
    asked.train.graph = true;
    EXPECT_EQ(testing::difference(implementation.run(asked), want, 0), "") << testing::mesh_name(asked.mesh);
  }
}

TEST_P(TrainSuite, ReplayedWithDropout) {
  Config config = testing::small_config();
  config.train.steps = 20;
  config.train.accumulate = 2;
  config.model.dropout = 0.2;
  expect_same_replayed(GetParam(), config);
}

// About half of the steps are skipped.
TEST_P(TrainSuite, ReplayedWithSpikesSkipped) {
  Config config = testing::small_config();
  config.train.steps = 20;
  config.train.spike = 1.02;
  expect_same_replayed(GetParam(), config);
}

}  // namespace
}  // namespace tessera::train::suite
