// Loss and gradient norm of 50 steps in f32 on each mesh, compared with one rank.
#include <array>

#include "tessera/train/suite/train_suite.h"

namespace tessera::train::suite {
namespace {

using testing::Curve;

constexpr double kTolerance = 1e-5;
// dp, fsdp, tp.
constexpr std::array<std::array<int, 3>, 8> kMeshes{
    {{2, 1, 1}, {4, 1, 1}, {1, 2, 1}, {1, 4, 1}, {1, 1, 2}, {1, 1, 4}, {2, 1, 2}, {1, 2, 2}}};

void expect_same_on_meshes(const TrainImplementation& implementation, const Config& config) {
  const Curve want = implementation.run(config);
  ASSERT_EQ(static_cast<std::int64_t>(want.losses.size()), config.train.steps);
  EXPECT_LT(want.losses.back(), 0.95 * want.losses.front()) << "nothing is learnt that could go wrong";
  for (const auto& [dp, fsdp, tp] : kMeshes) {
    const Config on_mesh = testing::on_mesh(config, dp, fsdp, tp);
    EXPECT_EQ(testing::difference(implementation.run(on_mesh), want, kTolerance), "")
        << testing::mesh_name(on_mesh.mesh);
  }
}

Config with(const char* optimizer, double clip) {
  Config config = testing::small_config();
  config.optimizer.kind = optimizer;
  config.optimizer.clip = clip;
  if (config.optimizer.kind == "sgd") {
    config.optimizer.learning_rate = 0.1;
    config.optimizer.momentum = 0.9;
  }
  return config;
}

TEST_P(TrainSuite, AdamWClipped) { expect_same_on_meshes(GetParam(), with("adamw", 0.5)); }
TEST_P(TrainSuite, AdamW) { expect_same_on_meshes(GetParam(), with("adamw", 0)); }
TEST_P(TrainSuite, SgdClipped) { expect_same_on_meshes(GetParam(), with("sgd", 0.5)); }
TEST_P(TrainSuite, Sgd) { expect_same_on_meshes(GetParam(), with("sgd", 0)); }

}  // namespace
}  // namespace tessera::train::suite
