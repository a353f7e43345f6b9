// Tests `tessera checkpoint` from the command line.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/cli/testing/run_program.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

using cli::testing::contains;
using cli::testing::Outcome;
using nlohmann::json;

// Random numbers are equal on all meshes, so that two runs can be compared.
train::CheckpointState state_on(const std::string& mesh_text, std::uint64_t seed) {
  const layout::Mesh mesh = layout::Mesh::parse(mesh_text);
  ops::manual_seed(seed);
  train::CheckpointState state;
  state.tensors.emplace_back("weight", ops::randn({12, 8}, {.layout = layout::Layout::parse(mesh, "R,S0,S1")}));
  state.tensors.emplace_back("norm", ops::randn({8}, {.layout = layout::Layout::parse(mesh, "R,S0,R")}));
  state.tensors.emplace_back("steps", ops::full({}, 3.0F));
  state.texts["configuration"] = mesh_text;
  return state;
}

class CheckpointVerb : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/dev/shm/tessera_checkpoint_cli_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    base_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(base_); }

  void save(const std::string& run, const std::string& mesh, const std::vector<std::int64_t>& steps,
            std::uint64_t seed = 1) const {
    simulate(static_cast<int>(layout::Mesh::parse(mesh).size()), [&] {
      train::CheckpointWriter writer({.directory = base_ + "/" + run + "/checkpoints"});
      for (const std::int64_t step : steps) writer.save(step, state_on(mesh, seed));
      writer.finish();
      EXPECT_TRUE(writer.take_errors().empty());
    });
  }
  [[nodiscard]] Outcome run(const std::string& arguments) const {
    return cli::testing::tessera("checkpoint " + arguments, "cd " + base_ + " &&");
  }
  void damage(const std::string& file, std::int64_t from_end) const {
    const std::string path = base_ + "/" + file;
    std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::int64_t>(std::filesystem::file_size(path)) - from_end);
    stream.put('!');
  }

  std::string base_;
};

TEST_F(CheckpointVerb, LsShowsStepsRanksMeshAndState) {
  save("run", "dp=1,fsdp=2,tp=2", {10, 20});
  std::filesystem::create_directories(base_ + "/run/checkpoints/step-000000030.partial");
  damage("run/checkpoints/step-000000020/rank-000003.safetensors", 2);
  Outcome outcome = run("ls run");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "STEP\tWRITTEN (UTC)\tSIZE\tRANKS\tMESH\tSTATE\tPATH\n30\t-\t-\t-\t-\tpartial\t"));
  EXPECT_TRUE(contains(outcome.out, "\t4\tdp=1,fsdp=2,tp=2\tcomplete\t")) << outcome.out;
  outcome = run("ls run/checkpoints --verify --json");
  const json rows = json::parse(outcome.out)["checkpoints"];
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[1]["step"], 20);
  EXPECT_EQ(rows[1]["state"], "damaged");
  EXPECT_TRUE(contains(rows[1]["faults"][0], "rank-000003.safetensors"));
  EXPECT_EQ(rows[2]["state"], "good");
  EXPECT_EQ(rows[2]["world_size"], 4);
}

TEST_F(CheckpointVerb, VerifyNamesWhatIsDamagedAndFails) {
  save("run", "dp=1,fsdp=2,tp=2", {10});
  Outcome outcome = run("verify run");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "good: 7 shards of 3 tensors in 4 files")) << outcome.out;
  damage("run/checkpoints/step-000000010/rank-000001.safetensors", 2);
  outcome = run("verify run/checkpoints/step-000000010/");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(contains(outcome.out, "rank-000001.safetensors, ")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "checksum is wrong"));
  outcome = run("verify --json run");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_FALSE(json::parse(outcome.out)["is_good"]);
  std::filesystem::remove(base_ + "/run/checkpoints/step-000000010/index.json");
  outcome = run("verify run/checkpoints/step-000000010");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(contains(outcome.out, "index.json"));
}

TEST_F(CheckpointVerb, ReshardedCheckpointsHoldTheSame) {
  save("run", "dp=2,fsdp=3,tp=1", {10});
  for (const std::string mesh : {"dp=1,fsdp=2,tp=1", "tp=4", "dp=2,fsdp=1,tp=3", "other=5"}) {
    const Outcome outcome = run("reshard run --mesh " + mesh + " --out " + mesh);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(run("verify " + mesh).code, 0);
    const Outcome difference = run("diff run " + mesh);
    EXPECT_EQ(difference.code, 0) << difference.out;
    EXPECT_TRUE(contains(difference.out, "equal: 3 tensors, bit for bit"));
  }
  ASSERT_EQ(run("reshard run --ranks 1 --out whole").code, 0);
  EXPECT_TRUE(contains(run("verify whole").out, "good: 3 shards of 3 tensors in 1 files"));
  EXPECT_EQ(run("diff run whole").code, 0);
  EXPECT_EQ(json::parse(run("reshard run --ranks 4 --out four --json").out)["to"]["mesh"], "dp=2,fsdp=2,tp=1");
}

// reshard writes the same files as ranks of that mesh.
TEST_F(CheckpointVerb, ReshardedFilesAreThoseThatRanksWrite) {
  save("run", "dp=1,fsdp=2,tp=2", {10});
  save("other", "dp=2,fsdp=1,tp=2", {10});
  ASSERT_EQ(run("reshard run --mesh dp=2,fsdp=1,tp=2 --out new").code, 0);
  for (int rank = 0; rank < 4; ++rank) {
    const std::string file = "step-000000010/rank-00000" + std::to_string(rank) + ".safetensors";
    const std::string made = cli::testing::content(base_ + "/new/" + file);
    EXPECT_FALSE(made.empty());
    EXPECT_TRUE(made == cli::testing::content(base_ + "/other/checkpoints/" + file)) << file;
  }
}

TEST_F(CheckpointVerb, ReshardOverwritesNothing) {
  save("run", "dp=1,fsdp=2,tp=1", {10});
  const Outcome outcome = run("reshard run --ranks 1 --out run/checkpoints");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(contains(outcome.err, "must not be an input")) << outcome.err;
  EXPECT_EQ(run("verify run").code, 0);
  std::filesystem::create_directories(base_ + "/other/step-000000010");
  EXPECT_TRUE(contains(run("reshard run --ranks 1 --out other").err, "already exists"));
}

TEST_F(CheckpointVerb, ReshardSaysWhatMakesNoSense) {
  save("run", "dp=1,fsdp=2,tp=1", {10});
  const auto expect = [&](const std::string& arguments, int code, const std::string& words) {
    const Outcome outcome = run("reshard run --out x " + arguments);
    EXPECT_EQ(outcome.code, code) << arguments << ": " << outcome.err;
    EXPECT_TRUE(contains(outcome.err, words)) << outcome.err;
    EXPECT_LT(outcome.err.size(), 300U) << outcome.err;
  };
  expect("", 2, "--mesh dp=1,fsdp=2,tp=1");
  expect("--mesh dp=1,fsdp=zwei", 2, "zwei");
  expect("--ranks 0", 2, "1");
  expect("--ranks -3", 2, "-3");
  expect("--mesh fsdp=2147483647", 1, "105 elements");
  expect("--ranks 106", 1, "105 elements");
  EXPECT_FALSE(std::filesystem::exists(base_ + "/x"));
}

TEST_F(CheckpointVerb, WhatIsDamagedIsNeitherReshardedNorCompared) {
  save("run", "dp=1,fsdp=2,tp=1", {10});
  save("other", "dp=1,fsdp=2,tp=1", {10});
  damage("run/checkpoints/step-000000010/rank-000001.safetensors", 2);
  const std::string fault = "checkpoints/step-000000010 is corrupt: rank-000001.safetensors, ";
  for (const char* arguments : {"reshard run --ranks 1 --out new", "diff run other", "diff other run --json"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 1) << arguments;
    EXPECT_TRUE(contains(outcome.err, fault)) << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
  }
  EXPECT_FALSE(std::filesystem::exists(base_ + "/new"));
}

// The newest checkpoint is selected even if its index is unreadable: an older one would be a wrong answer.
TEST_F(CheckpointVerb, TheNewestIsMeantThoughItsIndexIsDamaged) {
  save("run", "dp=1,fsdp=2,tp=1", {10, 20});
  damage("run/checkpoints/step-000000020/index.json", 30);
  for (const char* arguments : {"verify run", "diff run run", "reshard run --ranks 1 --out new"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 1) << arguments;
    const std::string told = outcome.out + outcome.err;
    EXPECT_TRUE(contains(told, "step-000000020/index.json: not an index of a checkpoint, or corrupt")) << told;
  }
  const json verdict = json::parse(run("verify run --json").out);
  EXPECT_FALSE(verdict["is_good"]);
  EXPECT_EQ(verdict.at("faults").at(0).at("file"), "index.json");
  EXPECT_EQ(run("verify run/checkpoints/step-000000010").code, 0);
}

TEST_F(CheckpointVerb, LsTakesOneCheckpoint) {
  save("run", "dp=1,fsdp=2,tp=1", {10, 20});
  std::filesystem::create_directories(base_ + "/run/checkpoints/step-000000030.partial");
  const auto rows_of = [&](const std::string& path) {
    return json::parse(run("ls --json --verify run/checkpoints/" + path).out)["checkpoints"];
  };
  for (const char* path : {"step-000000010", "step-000000010/"}) {
    const json rows = rows_of(path);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0]["step"], 10);
    EXPECT_EQ(rows[0]["state"], "good");
  }
  EXPECT_EQ(rows_of("step-000000030.partial")[0]["state"], "partial");
  damage("run/checkpoints/step-000000020/index.json", 30);
  const json rows = rows_of("step-000000020");
  EXPECT_EQ(rows[0]["step"], 20) << "by its name";
  EXPECT_EQ(rows[0]["state"], "damaged");
}

// Names come from an untrusted file.
TEST_F(CheckpointVerb, NamesCannotMoveTheCursor) {
  const auto save_named = [&](const std::string& run, float value) {
    train::CheckpointState state;
    state.tensors.emplace_back("x\x1b[2J\u009b\n", ops::full({4}, value));
    train::CheckpointWriter writer({.directory = base_ + "/" + run + "/checkpoints"});
    writer.save(1, state);
    writer.finish();
  };
  save_named("run", 1.0F);
  save_named("other", 2.0F);
  EXPECT_TRUE(contains(run("diff run other").out, "x\ufffd[2J"));
  damage("run/checkpoints/step-000000001/rank-000000.safetensors", 2);
  for (const char* arguments :
       {"diff run other --all", "verify run", "ls run --verify", "reshard run --ranks 1 --out x"}) {
    const Outcome outcome = run(arguments);
    EXPECT_TRUE(contains(outcome.out + outcome.err, "x\ufffd[2J")) << outcome.out << outcome.err;
    EXPECT_FALSE(contains(outcome.out + outcome.err, "\x1b")) << arguments;
    EXPECT_FALSE(contains(outcome.out + outcome.err, "\u009b")) << arguments;
  }
}

TEST_F(CheckpointVerb, DiffTellsWhatDiffersAndFails) {
  save("run", "dp=1,fsdp=2,tp=1", {10}, 1);
  save("other", "dp=1,fsdp=1,tp=2", {10}, 2);
  Outcome outcome = run("diff run other --all");
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "weight\tf32\t[12, 8]\tvalues\t96\t")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "steps\tf32\t[]\tequal\t-\t-")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "configuration\ttext\t-\ttext"));
  outcome = run("diff run other --json");
  const json all = json::parse(outcome.out);
  EXPECT_FALSE(all["is_equal"]);
  EXPECT_EQ(all["tensors"][0]["differing"], 96);
  EXPECT_GT(all["tensors"][0]["largest"].get<double>(), 0.1);
}

TEST_F(CheckpointVerb, RejectsADirectoryThatIsNamedAfterAnotherStep) {
  save("run", "dp=1,fsdp=2,tp=1", {10, 20});
  std::filesystem::rename(base_ + "/run/checkpoints/step-000000020", base_ + "/run/checkpoints/step-000000030");
  const std::string fault = "must be of step 30, the name of its directory, got step 20; rename";
  for (const char* arguments : {"verify run", "verify run/checkpoints/step-000000030/", "reshard run --ranks 1 --out x",
                                "diff run run/checkpoints/step-000000010"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 1) << arguments;
    EXPECT_TRUE(contains(outcome.out + outcome.err, fault)) << arguments << outcome.out << outcome.err;
  }
  for (const char* arguments : {"ls run", "ls run/checkpoints/step-000000030"}) {
    const Outcome outcome = run(arguments);
    EXPECT_TRUE(contains(outcome.out, fault)) << outcome.out;
    EXPECT_TRUE(contains(outcome.out, "damaged: ")) << outcome.out;
  }
}

// Writes a small Llama in the form of transformers, without the last `missing` tensors.
void write_model(const std::string& directory, std::size_t missing = 0) {
  std::filesystem::create_directories(directory);
  const json config = {{"model_type", "llama"},        {"hidden_size", 8}, {"num_hidden_layers", 1},
                       {"num_attention_heads", 2},     {"vocab_size", 10}, {"intermediate_size", 12},
                       {"max_position_embeddings", 16}};
  std::ofstream(directory + "/config.json") << config.dump();
  const nn::HuggingFaceFormat& format = nn::hugging_face_format("llama");
  std::vector<tensor::NamedTensor> tensors;
  for (const nn::HuggingFaceTensor& each : format.tensors(format.read_config(config.dump())))
    tensors.push_back({each.name, ops::randn(each.shape)});
  tensors.resize(tensors.size() - missing);
  tensor::write_safetensors(directory + "/model.safetensors", tensors);
}

TEST_F(CheckpointVerb, ImportsAndExportsModelsOfTransformers) {
  write_model(base_ + "/model");
  Outcome outcome = run("import model -o in");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "in/step-000000000: 12 tensors, ")) << outcome.out;
  EXPECT_TRUE(contains(run("ls in").out, "\tcomplete\t"));
  EXPECT_EQ(run("verify in").code, 0);
  EXPECT_EQ(run("reshard in --ranks 2 --out two").code, 0);
  outcome = run("export two -o out --max-file 600B --dtype bf16 --json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_GT(json::parse(outcome.out)["to"]["files"], 1);
  EXPECT_EQ(run("import out -o again --dtype f32").code, 0);
  EXPECT_EQ(run("diff in again").code, 1) << "rounded to bf16";
  EXPECT_EQ(run("import model -o out_f32 --dtype bf16").code, 0);
  EXPECT_EQ(run("import out -o back").code, 0);
  EXPECT_EQ(run("diff out_f32 back").code, 0);
  EXPECT_TRUE(contains(run("import model -o in").err, "already exists"));
  EXPECT_TRUE(contains(run("export in -o out").err, "already exists"));
  EXPECT_EQ(run("import model -o x --dtype i32").code, 2);
  EXPECT_EQ(run("export in -o x --max-file 0").code, 2);
  write_model(base_ + "/part", 2);
  outcome = run("import part -o x");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(contains(outcome.err, "missing: model.norm.weight [8]")) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "missing: lm_head.weight [10, 8]")) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(base_ + "/x"));
}

TEST_F(CheckpointVerb, SaysWhatIsMissing) {
  EXPECT_TRUE(contains(run("ls nowhere").err, "nowhere: must be a directory"));
  std::filesystem::create_directories(base_ + "/empty");
  EXPECT_TRUE(contains(run("ls empty").err, "no checkpoints found"));
  EXPECT_EQ(run("verify empty").code, 1);
  EXPECT_EQ(run("lst empty").code, 2);
  EXPECT_TRUE(contains(run("").err, "command required; commands: ls"));
  const Outcome help = run("reshard --help");
  EXPECT_TRUE(contains(help.out, "--mesh")) << help.out;
}

}  // namespace
}  // namespace tessera
