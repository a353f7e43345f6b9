// Steps that are captured once and replayed: the same bits as steps that are not, and what cannot be captured.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <vector>

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/hooks.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/train/bad_step.h"
#include "tessera/train/model.h"
#include "tessera/train/testing/runs.h"
#include "tessera/train/trainer.h"

namespace tessera::train {
namespace {

using testing::on_mesh;
using testing::small_config;
using testing::synthetic_samples;

int ranks_of(const Config& config) { return config.mesh.dp * config.mesh.fsdp * config.mesh.tp; }

Config dropping(std::int64_t steps) {
  Config config = small_config();
  config.train.steps = steps;
  config.model.dropout = 0.2;
  config.optimizer.clip = 0.5;
  return config;
}

// This rank's parts of all parameters.
std::vector<float> own_weights(const Trainer& trainer) {
  std::vector<float> out;
  device::Device::get("host").synchronize();
  for (const Parameter& parameter : trainer.model().parameters()) {
    const Tensor own = parameter.tensor.has_layout() ? parameter.tensor.local() : parameter.tensor;
    out.insert(out.end(), own.data_as<float>(), own.data_as<float>() + own.numel());
  }
  return out;
}

// What a run gave on one rank. A step depends on the state that the steps before it left to the optimizer, so that
// weights after many steps tell of it too.
struct Seen {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<double> rates;
  std::vector<float> weights;
  ops::GeneratorState random;
  friend bool operator==(const Seen&, const Seen&) = default;
};

// By rank; `between` is called after each step.
std::map<int, Seen> run(const Config& config, const std::function<void(Trainer&)>& between = {}) {
  std::map<int, Seen> all;
  std::mutex mutex;
  simulate(ranks_of(config), [&] {
    Trainer trainer(config, synthetic_samples(config));
    Seen seen;
    while (trainer.step_count() < config.train.steps) {
      const StepReport report = trainer.step();
      seen.losses.push_back(report.loss);
      seen.norms.push_back(report.grad_norm);
      seen.rates.push_back(report.learning_rate);
      if (between) between(trainer);
    }
    seen.weights = own_weights(trainer);
    seen.random = ops::generator_state();
    const std::lock_guard lock(mutex);
    all[current_place().rank.value()] = std::move(seen);
  });
  return all;
}

Config replayed(Config config) {
  config.train.graph = true;
  return config;
}

void expect_same(const Config& config) {
  const std::map<int, Seen> want = run(config);
  const std::map<int, Seen> got = run(replayed(config));
  ASSERT_EQ(want.size(), static_cast<std::size_t>(ranks_of(config)));
  for (const auto& [rank, seen] : want) {
    EXPECT_EQ(got.at(rank).losses, seen.losses) << testing::mesh_name(config.mesh) << ", rank " << rank;
    EXPECT_EQ(got.at(rank), seen) << testing::mesh_name(config.mesh) << ", rank " << rank;
  }
}

TEST(StepGraph, FiftyReplayedStepsWithDropoutHaveTheSameBits) { expect_same(dropping(50)); }

TEST(StepGraph, HasTheSameBitsOnEveryMesh) {
  for (const auto& [dp, fsdp, tp] : std::vector<std::array<int, 3>>{{2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1, 2, 2}}) {
    expect_same(on_mesh(dropping(50), dp, fsdp, tp));
  }
}

}  // namespace
}  // namespace tessera::train
namespace tessera::train {
TEST(Scratch, Memory) {
  for (const auto& [dp, fsdp, tp] : std::vector<std::array<int, 3>>{{1,1,1},{2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1, 2, 2}}) {
   for (bool pre : {true,false}) for (bool g : {false,true}) {
    Config c = testing::on_mesh(testing::small_config(), dp, fsdp, tp);
    c.model = {.preset="tiny"}; c= resolved(c, dp*fsdp*tp); c.model.dropout=0.1;
    c.train.graph = g; c.mesh.prefetch=pre; 
    simulate(dp*fsdp*tp, [&] {
      Trainer t(c, testing::synthetic_samples(c));
      for (int i=0;i<4;++i) t.step();
      if (current_place().rank != Rank(0)) return;
      std::printf("%d %d %d pre %d graph %d\n now ", dp,fsdp,tp,pre,g);
      for (auto& o : t.memory_now()) std::printf("%s %ld  ", o.owner.c_str(), o.nbytes/1024);
      std::printf("\n peak ");
      for (auto& o : t.memory_peak()) std::printf("%s %ld  ", o.owner.c_str(), o.nbytes/1024);
      auto s = memory::Allocator::of(device::Device::get("host")).statistics();
      std::printf("\n reserved %lu peak %lu blocks live %lu cached %lu pending %lu (%lu KiB)\n", s.now.reserved_nbytes/1024, s.peak_reserved_nbytes/1024, s.now.live_blocks, s.now.cached_blocks, s.now.pending_blocks, s.now.pending_nbytes/1024);
    });
   }
  }
}
}
