// Runs that start from the weights of another run: frozen parameters, LoRA adapters, and checkpoints of other models.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/ops/create/create.h"
#include "tessera/tensor/safetensors.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/checkpoint/hugging_face.h"
#include "tessera/train/merge_adapters.h"
#include "tessera/train/run.h"
#include "tessera/train/testing/told_runs.h"

namespace tessera::train {
namespace {

using testing::contains;

class RunFromWeights : public testing::ToldRuns {
 protected:
  void SetUp() override {
    ToldRuns::SetUp();
    EXPECT_EQ(run_and(config("base")).end, RunEnd::kDone);
  }
  Config from_base(const char* name = "run") const {
    Config out = config(name);
    out.checkpoint.init = path("base").string();
    out.optimizer.learning_rate = 1e-3;
    out.train.steps = 4;
    return out;
  }
  // The bytes of the tensors of the newest checkpoint of a run, by name.
  std::map<std::string, std::string> tensors(const char* name) const {
    std::map<std::string, std::string> out;
    const std::vector<CheckpointInfo> all = checkpoints_in(path(name) / "checkpoints");
    if (all.empty()) return out;
    const tensor::SafetensorsFile file((all.front().path / "rank-000000.safetensors").string());
    for (const tensor::SafetensorsEntry& each : file.entries()) {
      const Tensor value = file.map(each.name);
      out[each.name] = std::string(reinterpret_cast<const char*>(value.data()), value.nbytes());
    }
    return out;
  }
};

TEST_F(RunFromWeights, StartsAtStepZeroWithTheWeightsAlone) {
  Config config = from_base();
  config.train.freeze = {"*"};
  expect_error<InvalidArgument>([&] { (void)run_and(config); }, {"train.freeze: must leave a parameter to train"});
  config.train.freeze = {"layer.*"};
  expect_error<InvalidArgument>([&] { (void)run_and(config); }, {"train.freeze: must match the paths", "'layer.*'"});
  config.train.freeze = {"layers.*", "embed_tokens.*"};
  const RunSummary summary = run_and(config);
  EXPECT_EQ(summary.end, RunEnd::kDone);
  EXPECT_TRUE(contains(said, "the initial weights are those of " + (path("base") / "checkpoints").string())) << said;
  EXPECT_TRUE(contains(said, "step 1/4")) << said;
  EXPECT_LT(*summary.first_loss, 0.98 * std::log(260.0)) << "the weights are trained ones";
  const auto base = tensors("base");
  const auto now = tensors("run");
  EXPECT_EQ(now.at("parameters/layers.0.mlp.up_proj.weight"), base.at("parameters/layers.0.mlp.up_proj.weight"));
  EXPECT_EQ(now.at("parameters/embed_tokens.weight"), base.at("parameters/embed_tokens.weight"));
  EXPECT_NE(now.at("parameters/lm_head.weight"), base.at("parameters/lm_head.weight"));
  EXPECT_FALSE(now.contains("optimizer/first/layers.0.mlp.up_proj.weight")) << "frozen parameters have no state";
  EXPECT_EQ(run_and(config).was_finished, true);
}

TEST_F(RunFromWeights, OptionsThatNoShapeShowsAreNamed) {
  EXPECT_EQ(run_and(from_base("same")).end, RunEnd::kDone);
  EXPECT_FALSE(contains(said, "other options")) << said;
  Config config = from_base("other");
  config.model.rope_base = 20000;
  config.model.norm_eps = 1e-6;
  EXPECT_EQ(run_and(config).end, RunEnd::kDone);
  EXPECT_TRUE(contains(said,
                       "the weights are of a model with other options: model.norm_eps is 1e-06 here and 1e-05 there, "
                       "model.rope_base is 20000 here and 10000 there; use theirs, unless the change is intended"))
      << said;
}

TEST_F(RunFromWeights, AdaptersAloneAreTrainedAndSavedAndResume) {
  Config config = from_base();
  config.lora.rank = 2;
  Config whole = config;
  whole.run.directory = path("whole").string();
  whole.schedule.kind = config.schedule.kind = "constant";
  EXPECT_EQ(run_and(whole).end, RunEnd::kDone);
  const auto left = tensors("whole");
  EXPECT_TRUE(left.contains("parameters/layers.0.self_attn.q_proj.lora_a"));
  EXPECT_TRUE(left.contains("parameters/layers.0.mlp.down_proj.lora_b"));
  for (const auto& [name, bytes] : left)
    EXPECT_TRUE(contains(name, "lora_") || contains(name, "optimizer/steps")) << name;

  config.train.steps = 2;
  EXPECT_EQ(run_and(config).steps, 2);
  config.train.steps = 4;
  const RunSummary resumed = run_and(config);
  EXPECT_EQ(resumed.resumed_from, std::vector<std::int64_t>{2});
  EXPECT_EQ(tensors("run"), left) << "the weights under the adapters are those of checkpoint.init again";

  // Merged, the model computes the same without adapters.
  const CheckpointInfo adapters = checkpoints_in(path("run") / "checkpoints").front();
  const CheckpointInfo base = checkpoints_in(base_of_adapters(adapters) / "checkpoints").front();
  const CheckpointInfo merged = merge_adapters(adapters, base, path("merged"));
  EXPECT_EQ(merged.path, path("merged") / "step-000000004");
  Config evaluated = this->config("evaluated");
  evaluated.checkpoint.init = path("merged").string();
  evaluated.train.steps = 1;
  evaluated.optimizer.learning_rate = 1e-12;
  const double loss = run_and(evaluated).evaluations.back().loss;
  const double want = resumed.evaluations.back().loss;
  EXPECT_NEAR(loss, want, 1e-5 * want);
  expect_error<InvalidArgument>([&] { (void)merge_adapters(adapters, base, path("merged")); }, {"must not exist"});
  expect_error<MismatchError>([&] { (void)merge_adapters(base, base, path("other")); },
                              {"must be a checkpoint of LoRA adapters"});

  config.lora.rank = 4;
  config.train.steps = 6;
  expect_error<InvalidArgument>([&] { (void)run_and(config); },
                                {"cannot resume from", "lora.rank is 4 here, and was 2"});
  Config without = config;
  without.checkpoint.init = "";
  expect_error<InvalidArgument>([&] { (void)run_and(without); },
                                {"lora.rank: requires the weights of a trained model, got 4", "--init"});
  Config headed = from_base("headed");
  headed.lora = {.rank = 2, .modules = {"*"}};
  expect_error<InvalidArgument>([&] { (void)run_and(headed); },
                                {"an output head must not have an adapter", "leave it out of lora.modules"});
}

TEST_F(RunFromWeights, StartsFromFilesOfTransformersAsFromTheCheckpoint) {
  const HuggingFaceModel exported =
      export_hugging_face(checkpoints_in(path("base") / "checkpoints").front(), path("exported"));
  Config config = from_base("straight");
  config.checkpoint.init = exported.path.string();
  EXPECT_EQ(run_and(config).end, RunEnd::kDone);
  EXPECT_TRUE(contains(said, "the initial weights are those of " + exported.path.string())) << said;
  EXPECT_EQ(run_and(from_base("other")).end, RunEnd::kDone);
  EXPECT_EQ(tensors("straight"), tensors("other"));
  Config misfit = from_base("misfit");
  misfit.checkpoint.init = exported.path.string();
  misfit.model.hidden = 48;
  expect_error<InvalidArgument>([&] { (void)run_and(misfit); },
                                {"shape of parameters/layers.0.mlp.up_proj.weight: must be [48, ",
                                 "shape of parameters/layers.0.mlp.down_proj.weight: must be ["});
}

TEST_F(RunFromWeights, OtherModelsAndEarlierNamesAreRefusedWithTheReason) {
  Config other = from_base();
  other.model.hidden = 48;
  expect_error<MismatchError>([&] { (void)run_and(other); },
                              {"tensor 'parameters/layers.0.mlp.", "has shape [", "use the model sizes"});
  Config none = from_base();
  none.checkpoint.init = path("nowhere").string();
  expect_error<IoError>([&] { (void)run_and(none); }, {"checkpoint.init: no valid checkpoint in", "nowhere"});

  // A checkpoint with the names of parameters before models were modules.
  CheckpointState old;
  old.tensors = {{"parameters/embedding", ops::zeros({260, 16})},
                 {"parameters/layers.0.attention_norm", ops::zeros({16})},
                 {"parameters/layers.0.query", ops::zeros({16, 16})},
                 {"parameters/head", ops::zeros({260, 16})}};
  {
    CheckpointWriter writer({.directory = path("old")});
    writer.save(3, old);
    writer.finish();
    EXPECT_TRUE(writer.take_errors().empty());
  }
  Config earlier = from_base();
  earlier.checkpoint.init = path("old").string();
  expect_error<MismatchError>([&] { (void)run_and(earlier); },
                              {"old/step-000000003: no tensor 'parameters/embed_tokens.weight'", "among its 4 tensors",
                               "the version of Tessera that it was saved with"});
}

}  // namespace
}  // namespace tessera::train
