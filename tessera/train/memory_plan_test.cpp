// Predicted bytes against measured ones.
#include "tessera/train/memory_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "tessera/base/rank.h"
#include "tessera/comm/world.h"
#include "tessera/train/testing/runs.h"

namespace tessera::train {
namespace {

using testing::on_mesh;

// Larger, so that matrices dominate single values. Nothing is gathered ahead: on one stream the peak of the allocator
// is exact.
Config config_of(const char* checkpointing) {
  Config config = testing::small_config();
  config.model.width = 64;
  config.model.layers = 4;
  config.model.hidden = 160;
  config.model.vocabulary = 128;
  config.model.sequence = 32;
  config.train.batch = 8;
  config.train.checkpointing = checkpointing;
  config.mesh.prefetch = false;
  return config;
}

std::map<std::string, double> by_owner(const std::vector<OwnedBytes>& bytes) {
  std::map<std::string, double> out;
  for (const OwnedBytes& each : bytes) out[each.owner] = static_cast<double>(each.nbytes);
  return out;
}

constexpr double kTolerance = 0.05;

void expect_predicted(const Config& config) {
  std::map<std::string, double> peak;
  std::map<std::string, double> predicted;
  simulate(config.mesh.dp * config.mesh.fsdp * config.mesh.tp, [&] {
    Trainer trainer(config, testing::synthetic_samples(config));
    for (int i = 0; i < 3; ++i) trainer.step();
    if (current_place().rank != Rank(0)) return;
    peak = by_owner(trainer.memory_peak());
    predicted = by_owner(trainer.memory_predicted());
  });
  const std::string name = testing::mesh_name(config.mesh) + ", " + config.train.checkpointing + ", " +
                           config.train.dtype + ", accumulate " + std::to_string(config.train.accumulate);
  EXPECT_EQ(predicted["parameters"], peak["parameters"]) << name;
  EXPECT_EQ(predicted["gradients"], peak["gradients"]) << name;
  EXPECT_NEAR(predicted["optimizer"], peak["optimizer"], 16) << name;
  EXPECT_NEAR(predicted["gathered"], peak["gathered"], 0.02 * peak["gathered"]) << name;
  EXPECT_NEAR(predicted["activations"], peak["activations"], kTolerance * peak["activations"]) << name;
  EXPECT_NEAR(predicted["total"], peak["total"], kTolerance * peak["total"]) << name;
}

TEST(MemoryPlan, PredictsThePeak) {
  for (const char* checkpointing : {"none", "full", "selective"}) {
    const Config config = config_of(checkpointing);
    for (const Config& each : {config, on_mesh(config, 2, 1, 1), on_mesh(config, 1, 4, 1), on_mesh(config, 1, 1, 2),
                               on_mesh(config, 2, 1, 2), on_mesh(config, 1, 2, 2)}) {
      expect_predicted(each);
      Config more = each;
      more.train.accumulate = 2;
      expect_predicted(more);
      more.train.dtype = "bf16";
      expect_predicted(more);
    }
  }
}

TEST(MemoryPlan, KnowsOtherModels) {
  Config config = config_of("none");
  config.model.tied = true;
  expect_predicted(config);
  config.model.tied = false;
  config.model.dropout = 0.1;
  expect_predicted(config);
  config.model.dropout = 0;
  config.optimizer.kind = "sgd";
  expect_predicted(config);
  config.optimizer.momentum = 0.9;
  expect_predicted(config);
  config.mesh.sequence_parallel = false;
  expect_predicted(on_mesh(config, 1, 1, 2));
}

// Parameters, gradients and state of a rank of fsdp: its share, and two layers with their gradients.
TEST(MemoryPlan, FullyShardedRanksHoldTheirShare) {
  Config config = on_mesh(config_of("none"), 1, 4, 1);
  for (const bool prefetches : {true, false}) {
    config.mesh.prefetch = prefetches;
    std::map<std::string, double> peak;
    double total = 0;
    simulate(4, [&] {
      Trainer trainer(config, testing::synthetic_samples(config));
      for (int i = 0; i < 3; ++i) trainer.step();
      if (current_place().rank != Rank(0)) return;
      peak = by_owner(trainer.memory_peak());
      total = 4.0 * 4 * static_cast<double>(trainer.parameter_count());
    });
    const double width = 64;
    const double layer = 4 * (2 * width + 3 * width * width + 3 * width * 160);  // 4 kv heads of 8: half a matrix each
    EXPECT_LE(peak["parameters"] + peak["gradients"] + peak["optimizer"], 1.15 * total / 4);
    EXPECT_LE(peak["gathered"], 2 * layer);
    EXPECT_GT(peak["gathered"], (prefetches ? 1.9 : 0.9) * layer);
  }
}

}  // namespace
}  // namespace tessera::train
