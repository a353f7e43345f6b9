// Activations of an inspected step: their names and values, on every mesh and for eager and replayed steps. Inspection
// changes nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>

#include "tessera/base/rank.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/nn/norm.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/shard/distribute.h"
#include "tessera/tensor/safetensors.h"
#include "tessera/train/run.h"
#include "tessera/train/testing/replays.h"
#include "tessera/train/testing/runs.h"
#include "tessera/train/testing/scripted_steps.h"
#include "tessera/train/testing/told_run.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using testing::on_mesh;
using testing::ReplayResults;
using testing::small_config;

constexpr int kLookedAt = 3;

std::vector<float> values_of(const Tensor& x) {
  const Tensor plain = ops::contiguous(ops::cast(x, DType::kF32));
  device::Device::get("host").synchronize();
  return {plain.data_as<float>(), plain.data_as<float>() + plain.numel()};
}

// Results of one rank: the run, and the global activations of one step.
struct LookedAt {
  ReplayResults run;
  std::map<std::string, std::vector<float>> whole;
};

LookedAt looked_at(const Config& config, bool looks = true) {
  LookedAt out;
  const auto look = [&](const StepReport& report, const StepActivations& activations) {
    EXPECT_EQ(report.step, kLookedAt);
    for (const auto& [name, tensor] : activations) {
      EXPECT_TRUE(out.whole.emplace(name, values_of(shard::gather(tensor))).second) << name << " is there twice";
    }
  };
  out.run = testing::seen_run(config, [&](Trainer& trainer) {
    if (looks && trainer.step_count() == 1) trainer.before_update(kLookedAt, look);
  });
  return out;
}

Config config_of_run() {
  Config config = small_config();
  config.train.steps = 5;
  config.model.dropout = 0.1;
  return config;
}

// Returns the results of the first rank.
LookedAt on_ranks(const Config& config, bool looks = true) {
  LookedAt first;
  simulate(config.mesh.dp * config.mesh.fsdp * config.mesh.tp, [&] {
    LookedAt seen = looked_at(config, looks);
    if (current_place().rank == Rank(0)) first = std::move(seen);
  });
  return first;
}

void expect_near(const LookedAt& got, const LookedAt& want) {
  ASSERT_EQ(got.whole.size(), want.whole.size());
  for (const auto& [name, values] : want.whole) {
    ASSERT_TRUE(got.whole.contains(name)) << name;
    const std::vector<float>& own = got.whole.at(name);
    ASSERT_EQ(own.size(), values.size()) << name;
    float largest = 0;
    float most = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(values[i]));
      most = std::max(most, std::abs(own[i] - values[i]));
    }
    EXPECT_GT(largest, 0) << name;
    EXPECT_LE(most, 1e-4F * largest) << name;
  }
}

TEST(Activations, AreTheSameOnEveryMesh) {
  const LookedAt want = on_ranks(config_of_run());
  EXPECT_TRUE(want.whole.contains("activations/layers.1.self_attn.values"));
  EXPECT_TRUE(want.whole.contains("activation_gradients/layers.1.self_attn.values"));
  std::vector<Config> meshes{on_mesh(config_of_run(), 2, 1, 1), on_mesh(config_of_run(), 1, 2, 1),
                             on_mesh(config_of_run(), 1, 1, 2), on_mesh(config_of_run(), 1, 1, 2)};
  meshes.back().mesh.sequence_parallel = false;
  for (const Config& each : meshes) {
    SCOPED_TRACE(testing::mesh_name(each.mesh) + (each.mesh.sequence_parallel ? "" : ", the sequence whole"));
    expect_near(on_ranks(each), want);
  }
}

TEST(Activations, AreTheSameHoweverTheStepIsTaken) {
  const LookedAt want = on_ranks(config_of_run());
  const auto expect_same = [&](const char* what, const std::function<void(Config&)>& change) {
    Config config = config_of_run();
    change(config);
    EXPECT_TRUE(on_ranks(config).whole == want.whole) << what;
  };
  expect_same("full", [](Config& c) { c.train.checkpointing = "full"; });
  expect_same("selective", [](Config& c) { c.train.checkpointing = "selective"; });
  expect_same("graph", [](Config& c) { c.train.graph = true; });
}

TEST(Activations, OfMicroBatchesAreThoseOfTheFirst) {
  Config config = config_of_run();
  config.train.accumulate = 2;
  const LookedAt halves = on_ranks(config);
  const std::vector<float>& tokens = halves.whole.at("activations/tokens");
  // Sample by sample, the first two of the four of the step.
  const SampleReader samples = testing::synthetic_samples(config);
  std::vector<float> want;
  for (std::uint64_t number = 4 * (kLookedAt - 1); number < 4 * (kLookedAt - 1) + 2; ++number) {
    std::vector<std::int32_t> sample(static_cast<std::size_t>(config.model.sequence) + 1);
    samples(number, sample);
    want.insert(want.end(), sample.begin(), sample.end() - 1);
  }
  EXPECT_EQ(tokens, want);
  EXPECT_EQ(halves.whole.at("activations/embed_tokens").size(), 2u * 8 * 32);
}

TEST(Activations, LookingChangesNoBitOfTheRun) {
  for (const bool graph : {false, true}) {
    for (Config config : {config_of_run(), on_mesh(config_of_run(), 1, 2, 1), on_mesh(config_of_run(), 1, 1, 2)}) {
      config.train.graph = graph;
      config.train.checkpointing = "selective";
      EXPECT_EQ(testing::difference(on_ranks(config).run, on_ranks(config, false).run), "")
          << testing::mesh_name(config.mesh) << (graph ? ", replayed" : "");
    }
  }
}

// The dump of a run, on one rank or two.
class DumpedStep : public ::testing::Test {
 protected:
  void SetUp() override { testing::write_text(directory.path()); }
  [[nodiscard]] tensor::SafetensorsFile dump(Config config) const {
    config.run.dump_step = kLookedAt;
    simulate(config.mesh.fsdp * config.mesh.tp, [&] { (void)run(config, nullptr); });
    return tensor::SafetensorsFile((directory.path() / "run" / "dump-3" / "rank-0.safetensors").string());
  }

  testing::TemporaryDirectory directory;
};

TEST_F(DumpedStep, HasWhatEveryModuleGave) {
  const tensor::SafetensorsFile file = dump(testing::told_config(directory.path()));
  const std::map<std::string, Shape> want{
      {"tokens", {4, 16}},
      {"targets", {4, 16}},
      {"embed_tokens", {4, 16, 16}},
      {"layers.0.input_layernorm", {4, 16, 16}},
      {"layers.0.self_attn.q_proj", {4, 16, 16}},
      {"layers.0.self_attn.k_proj", {4, 16, 16}},
      {"layers.0.self_attn.v_proj", {4, 16, 16}},
      {"layers.0.self_attn.values", {4, 16, 16}},
      {"layers.0.self_attn.o_proj", {4, 16, 16}},
      {"layers.0.self_attn", {4, 16, 16}},
      {"layers.0.attention_dropout", {4, 16, 16}},
      {"layers.0.post_attention_layernorm", {4, 16, 16}},
      {"layers.0.mlp.gate_proj", {4, 16, 32}},
      {"layers.0.mlp.up_proj", {4, 16, 32}},
      {"layers.0.mlp.down_proj", {4, 16, 16}},
      {"layers.0.mlp", {4, 16, 16}},
      {"layers.0.mlp_dropout", {4, 16, 16}},
      {"layers.0", {4, 16, 16}},
      {"norm", {4, 16, 16}},
      {"scores", {4, 16, 260}},
      {"loss", {}},
  };
  std::size_t found = 0;
  for (const auto& entry : file.entries()) found += entry.name.starts_with("activations/") ? 1 : 0;
  EXPECT_EQ(found, want.size());
  for (const auto& [module, shape] : want) {
    ASSERT_TRUE(file.contains("activations/" + module)) << module;
    EXPECT_EQ(file.entry("activations/" + module).shape, shape) << module;
    const bool has_gradient = module != "tokens" && module != "targets" && module != "scores";
    EXPECT_EQ(file.contains("activation_gradients/" + module), has_gradient) << module;
  }
  EXPECT_EQ(file.metadata().at("micro_batch"), "0 of 1");
  EXPECT_EQ(*file.map("activations/loss").data_as<float>(), std::stof(file.metadata().at("loss")));
}

TEST_F(DumpedStep, EqualsWhatItsParametersGive) {
  const Config config = testing::told_config(directory.path());
  const tensor::SafetensorsFile file = dump(config);
  const auto given = [&](const std::string& name) { return file.map(name); };
  const auto same = [](const Tensor& got, const Tensor& want) { return values_of(got) == values_of(want); };
  EXPECT_TRUE(same(given("activations/embed_tokens"),
                   ops::embedding(given("parameters/embed_tokens.weight"), given("activations/tokens"))));
  EXPECT_TRUE(same(given("activations/layers.0.input_layernorm"),
                   ops::rms_norm(given("activations/embed_tokens"), given("parameters/layers.0.input_layernorm.weight"),
                                 config.model.norm_eps)));
  EXPECT_TRUE(same(given("activations/layers.0.self_attn.q_proj"),
                   ops::linear(given("activations/layers.0.input_layernorm"),
                               given("parameters/layers.0.self_attn.q_proj.weight"))));
  EXPECT_TRUE(
      same(given("activations/scores"), ops::linear(given("activations/norm"), given("parameters/lm_head.weight"))));
  // The gradient of a matrix is the gradient of its output times its input.
  const Tensor back = ops::view(given("activation_gradients/layers.0.self_attn.q_proj"), {64, 16});
  const Tensor rows = ops::view(given("activations/layers.0.input_layernorm"), {64, 16});
  const std::vector<float> got = values_of(ops::matmul(ops::transpose(back, 0, 1), rows));
  const std::vector<float> want = values_of(given("gradients/layers.0.self_attn.q_proj.weight"));
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << i;
}

TEST_F(DumpedStep, OnAMeshEachRankHasItsPartAndSaysHowItIsCut) {
  Config config = testing::told_config(directory.path());
  config.mesh.tp = 2;
  const tensor::SafetensorsFile file = dump(config);
  EXPECT_EQ(file.entry("activations/layers.0.self_attn.q_proj").shape, (Shape{4, 16, 8}));
  EXPECT_EQ(file.entry("activations/layers.0.self_attn").shape, (Shape{4, 8, 16}))
      << "the sequence is cut between blocks";
  for (const char* module : {"layers.0.self_attn.q_proj", "layers.0.self_attn", "scores", "loss"})
    EXPECT_TRUE(file.metadata().contains(std::string("layout/activations/") + module)) << module;
  const fs::path other = directory.path() / "run" / "dump-3" / "rank-1.safetensors";
  EXPECT_TRUE(tensor::SafetensorsFile(other.string()).contains("activations/layers.0.self_attn.q_proj"));
}

}  // namespace
}  // namespace tessera::train
