// Replayed steps of rank processes are bitwise equal to eager ones.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tessera/comm/testing/rank_processes.h"
#include "tessera/train/testing/replays.h"
#include "tessera/train/testing/runs.h"

namespace tessera::train {
namespace {

TEST(StepGraphProcesses, ReplayedStepsHaveTheSameBits) {
  for (const auto& [dp, fsdp, tp] : std::vector<std::array<int, 3>>{{2, 1, 1}, {1, 2, 1}, {1, 1, 2}}) {
    Config config = testing::on_mesh(testing::small_config(), dp, fsdp, tp);
    config.train.steps = 20;
    config.model.dropout = 0.2;
    config.train.accumulate = 2;
    config.optimizer.clip = 0.5;
    const auto ends = comm::run_rank_processes(dp * fsdp * tp, [&](int rank) {
      const testing::ReplayResults want = testing::seen_run(config);
      Config replayed = config;
      replayed.train.graph = true;
      EXPECT_EQ(testing::difference(testing::seen_run(replayed), want), "")
          << testing::mesh_name(config.mesh) << ", rank " << rank;
    });
    for (const comm::ProcessEnd& end : ends) EXPECT_EQ(end.exit_code, 0) << "signal " << end.signal;
  }
}

}  // namespace
}  // namespace tessera::train
