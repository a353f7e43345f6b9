// Predictions compared with measured runs and with counts by hand.
#include "tessera/train/predict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

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
  config.run.device = "host";
  return config;
}

std::map<std::string, double> by_owner(const std::vector<OwnedBytes>& bytes) {
  std::map<std::string, double> out;
  for (const OwnedBytes& each : bytes) out[each.owner] = static_cast<double>(each.nbytes);
  return out;
}

std::string name_of(const Config& config) {
  return config.model.family + ", " + testing::mesh_name(config.mesh) + ", " + config.train.checkpointing + ", " +
         config.train.dtype + ", accumulate " + std::to_string(config.train.accumulate) +
         (config.mesh.prefetch ? ", prefetch" : "") + (config.train.graph ? ", graph" : "");
}

// With several streams, the allocator itself counts the peak to 1/64 (memory/statistics.h).
void expect_predicted(const Config& config) {
  const int ranks = config.mesh.dp * config.mesh.fsdp * config.mesh.tp;
  std::map<std::string, double> peak;
  simulate(ranks, [&] {
    Trainer trainer(config, testing::synthetic_samples(config));
    for (int i = 0; i < 3; ++i) trainer.step();
    if (current_place().rank == Rank(0)) peak = by_owner(trainer.memory_peak());
  });
  std::map<std::string, double> predicted = by_owner(predicted_memory(config, ranks));
  const bool has_streams = config.mesh.prefetch && config.mesh.fsdp > 1;
  const double tolerance = 0.01 + (has_streams ? 1.0 / 64 : 0);
  const std::string name = name_of(config);
  for (const char* exact : {"parameters", "gradients", "optimizer"}) EXPECT_EQ(predicted[exact], peak[exact]) << name;
  // A host reads its batch in place; every other device, and the prediction, holds a copy.
  const double batch = 8 * static_cast<double>(config.model.sequence * config.train.batch) / config.train.accumulate;
  for (const char* near : {"gathered", "activations", "total"})
    EXPECT_NEAR(predicted[near], peak[near], tolerance * peak[near] + batch) << near << ": " << name;
}

std::vector<Config> on_meshes(const Config& config) {
  return {config,
          on_mesh(config, 2, 1, 1),
          on_mesh(config, 1, 4, 1),
          on_mesh(config, 1, 1, 2),
          on_mesh(config, 2, 1, 2),
          on_mesh(config, 1, 2, 2)};
}

TEST(Predict, PredictsThePeakOnEveryMesh) {
  for (const char* checkpointing : {"none", "full", "selective"}) {
    for (const Config& each : on_meshes(config_of(checkpointing))) {
      expect_predicted(each);
      Config more = each;
      more.train.accumulate = 2;
      expect_predicted(more);
      more.train.dtype = "bf16";
      expect_predicted(more);
    }
  }
}

TEST(Predict, PredictsThePeakOfOtherModels) {
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

TEST(Predict, PredictsAnyFamily) {
  Config config = config_of("full");
  config.model.family = "gpt2";
  config.model.kv_heads = config.model.heads;
  config.model.tied = true;
  for (const Config& each : {config, on_mesh(config, 1, 2, 2)}) expect_predicted(each);
}

TEST(Predict, PredictsThePeakOnSeveralStreams) {
  for (const char* checkpointing : {"none", "full"}) {
    Config config = config_of(checkpointing);
    config.mesh.prefetch = true;
    for (const Config& each : {on_mesh(config, 1, 4, 1), on_mesh(config, 1, 2, 2)}) expect_predicted(each);
  }
}

TEST(Predict, PredictsThePeakOfAGraph) {
  Config config = config_of("none");
  config.train.graph = true;
  for (const Config& each : {config, on_mesh(config, 2, 1, 2), on_mesh(config, 1, 2, 1)}) expect_predicted(each);
}

TEST(Predict, AnAcceleratorHoldsTheLogitsOfTheLoss) {
  Config config = config_of("none");
  config.model.vocabulary = 50304;
  const auto total = [&](const char* device, bool is_replayed) {
    config.run.device = device;
    config.train.graph = is_replayed;
    return by_owner(predicted_memory(config, 1))["total"];
  };
  // The logits are f32, in rows of all classes. Without them, this model needs most memory at another moment, up to the
  // gradient of the largest weight more than at the loss.
  const double logits = 4.0 * 50304 * static_cast<double>(config.train.batch * config.model.sequence);
  const double weight = 4.0 * 50304 * static_cast<double>(config.model.width);
  for (const bool is_replayed : {false, true}) {
    const double more = total("cuda", is_replayed) - total("host", is_replayed);
    EXPECT_LE(more, 1.01 * logits) << is_replayed;
    EXPECT_GE(more, 0.98 * logits - 1.1 * weight) << is_replayed;
  }
}

TEST(Predict, PredictsPresets) {
  Config config;
  config.train.batch = 4;
  expect_predicted(config = resolved(config, 1));
  expect_predicted(on_mesh(config, 1, 2, 2));
}

TEST(Predict, UnevenShardsAreThoseOfTheLargestRank) {
  Config config = on_mesh(config_of("none"), 1, 4, 1);
  config.model.hidden = 162;
  config.model.vocabulary = 130;
  std::mutex mutex;
  std::vector<double> totals;
  simulate(4, [&] {
    Trainer trainer(config, testing::synthetic_samples(config));
    for (int i = 0; i < 3; ++i) trainer.step();
    const std::lock_guard lock(mutex);
    totals.push_back(by_owner(trainer.memory_peak())["total"]);
  });
  const auto [least, most] = std::ranges::minmax(totals);
  EXPECT_LT(least, most);
  EXPECT_NEAR(by_owner(predicted_memory(config, 4))["total"], most, 0.01 * most);
}

// Parameters, gradients and state of a rank of fsdp: its share, and two layers with their gradients.
TEST(Predict, FullyShardedRanksHoldTheirShare) {
  Config config = on_mesh(config_of("none"), 1, 4, 1);
  for (const bool prefetches : {true, false}) {
    config.mesh.prefetch = prefetches;
    const Prediction predicted = predict(config, 4);
    std::map<std::string, double> peak = by_owner(predicted.memory);
    const double total = 4.0 * 4 * static_cast<double>(predicted.parameters);
    const double width = 64;
    const double layer = 4 * (2 * width + 3 * width * width + 3 * width * 160);  // 4 kv heads of 8: half a matrix each
    EXPECT_LE(peak["parameters"] + peak["gradients"] + peak["optimizer"], 1.15 * total / 4);
    EXPECT_LE(peak["gathered"], 2 * layer);
    EXPECT_GT(peak["gathered"], (prefetches ? 1.9 : 0.9) * layer);
  }
}

std::int64_t count_of(const Prediction& prediction, comm::OpKind kind, const std::string& axes) {
  std::int64_t count = 0;
  for (const PredictedTraffic& each : prediction.traffic)
    count += each.kind == kind && each.axes == axes ? each.count : 0;
  return count;
}

TEST(Predict, ListsTheCommunicationOfTheMesh) {
  const Config config = config_of("none");
  EXPECT_TRUE(predict(config, 1).traffic.empty());
  const Prediction sharded = predict(on_mesh(config, 1, 4, 1), 4);
  // Six units (embedding, four blocks, head) are gathered in forward; blocks and head again in backward.
  EXPECT_GE(count_of(sharded, comm::OpKind::kAllGather, "fsdp"), 6 + 5);
  EXPECT_GE(count_of(sharded, comm::OpKind::kReduceScatter, "fsdp"), 6);
  std::int64_t gathered = 0;
  for (const PredictedTraffic& each : sharded.traffic)
    gathered += each.kind == comm::OpKind::kAllGather ? each.nbytes : 0;
  EXPECT_GE(gathered, 4 * sharded.parameters) << "every parameter is gathered, in f32";
  const Prediction replicated = predict(on_mesh(config, 2, 1, 1), 2);
  std::int64_t reduced = 0;
  for (const PredictedTraffic& each : replicated.traffic) {
    EXPECT_EQ(each.axes, "dp");
    EXPECT_EQ(each.ranks, 2);
    reduced += each.nbytes;
  }
  EXPECT_NEAR(static_cast<double>(reduced), 4.0 * static_cast<double>(replicated.parameters), 64);
  EXPECT_GT(communication_seconds(sharded), 0);
  EXPECT_EQ(communication_seconds(predict(config, 1)), 0);
}

TEST(Predict, CountsTheOperationsOfAStep) {
  Config config = config_of("none");
  const double per_token = flops_per_token(config.model).causal;
  const double tokens = static_cast<double>(config.train.batch * config.model.sequence);
  const double step = predict(config, 1).flops;
  EXPECT_GT(step, per_token * tokens);
  EXPECT_LT(step, 1.25 * per_token * tokens) << "besides products: norms, the update";
  config.train.checkpointing = "full";
  EXPECT_GT(predict(config, 1).flops, 1.2 * step) << "blocks are computed again";
  EXPECT_NEAR(predict(on_mesh(config_of("none"), 4, 1, 1), 4).flops, step / 4, 0.1 * step);
}

ModelConfig preset(const char* name, bool tied) {
  Config config;
  config.model.preset = name;
  config.model.tied = tied;
  return resolved(config, 1).model;
}

TEST(Flops, CountsAModelByHand) {
  // Width 4, one block, 2 heads of 2, 1 of keys: matrices 4x4 (q), 4x2 (k), 4x2 (v), 4x4 (o), three of 4x6, head 4x8.
  const ModelConfig model{
      .width = 4, .layers = 1, .heads = 2, .kv_heads = 1, .hidden = 6, .vocabulary = 8, .sequence = 10};
  const double matrices = 16 + 8 + 8 + 16 + 3 * 24 + 32;
  const double attention = 2 * (2 * 10 * 4);  // scores, then values: 10 keys, 4 elements each
  EXPECT_DOUBLE_EQ(flops_per_token(model).full, 3 * (2 * matrices + attention));
  EXPECT_DOUBLE_EQ(flops_per_token(model).causal, 3 * (2 * matrices + attention * 5.5 / 10)) << "5.5 keys on average";
  EXPECT_EQ(parameter_count(model), 32 + 32 + 3 * 4 + 120);
}

TEST(Flops, PresetsHaveTheSizesTheyAreNamedFor) {
  EXPECT_NEAR(static_cast<double>(parameter_count(preset("124m", true))) / 1e6, 124, 1);
  EXPECT_NEAR(static_cast<double>(parameter_count(preset("1b", true))) / 1e9, 1.24, 0.01);
  EXPECT_NEAR(static_cast<double>(parameter_count(preset("8b", false))) / 1e9, 8.03, 0.01);
}

TEST(Flops, AreAboutSixForEachNumberOfALargeModel) {
  const ModelConfig model = preset("8b", false);
  const double six = 6 * static_cast<double>(parameter_count(model));
  EXPECT_GT(flops_per_token(model).full, six);
  EXPECT_LT(flops_per_token(model).full, 1.3 * six);
}

}  // namespace
}  // namespace tessera::train
