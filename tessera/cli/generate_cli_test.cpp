// Tests `tessera generate` and `tessera eval` from the command line.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <nlohmann/json.hpp>

#include "tessera/cli/testing/train_directory.h"
#include "tessera/tessera.h"

namespace tessera::cli::testing {
namespace {

using nlohmann::json;

class Generate : public TrainDirectory {
 protected:
  void SetUp() override {
    TrainDirectory::SetUp();
    const Outcome outcome = train(
        "--model.width 32 --model.layers 2 --model.hidden 32 --model.sequence 48 --data.files text --train.steps 40 "
        "--train.batch 4 --optimizer.learning_rate 0.01 --eval.samples 10 --checkpoint.every 20 --run.directory run");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  [[nodiscard]] Outcome generate(const std::string& arguments) const { return in_directory("generate " + arguments); }
  [[nodiscard]] Outcome eval(const std::string& arguments) const { return in_directory("eval " + arguments); }
  static std::vector<json> lines_of(const std::string& text) {
    std::vector<json> all;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) all.push_back(json::parse(line));
    return all;
  }
};

TEST_F(Generate, GivesTheSameTextFromEverySourceOnEveryMesh) {
  const std::string how = " --temperature 0 --max-tokens 20";
  const Outcome first = generate("run 'line 1'" + how);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out.size(), 21U) << first.out;
  EXPECT_TRUE(first.out.ends_with("\n"));
  std::ofstream(directory + "/prompt") << "line 1\n";
  for (const std::string& same :
       {std::string("run --file prompt"), std::string("run <prompt"), std::string("run/checkpoints 'line 1'"),
        std::string("run/checkpoints/step-000000040 'line 1'"), std::string("run 'line 1' --no-cache"),
        std::string("run 'line 1' --mesh tp=2"), std::string("run 'line 1' --mesh fsdp=2,tp=2")}) {
    const Outcome outcome = generate(same + how);
    EXPECT_EQ(outcome.code, 0) << same << outcome.err;
    EXPECT_EQ(outcome.out, first.out) << same;
  }
  EXPECT_NE(generate("run/checkpoints/step-000000020 'line 1'" + how).out, first.out);
  ASSERT_EQ(in_directory("checkpoint export run -o exported").code, 0);
  const Outcome exported = generate("exported 'line 1' --tokenizer bytes --mesh tp=2" + how);
  EXPECT_EQ(exported.out, first.out) << "a model of transformers" << exported.err;
  EXPECT_TRUE(contains(generate("exported 'line 1'").err, "tokenizer.json': is missing; pass --tokenizer"));
}

TEST_F(Generate, ComputesOnANamedDevice) {
  EXPECT_EQ(generate("run 'line 1' --device host --max-tokens 4").code, 0);
  EXPECT_EQ(eval("run --device host --json").code, 0);
  for (const Outcome& refused : {generate("run 'line 1' --device abacus"), eval("run --device abacus")}) {
    EXPECT_EQ(refused.code, 2) << refused.out;
    EXPECT_TRUE(contains(refused.err, "device: must be auto or a device of this machine, got 'abacus'")) << refused.err;
  }
}

TEST_F(Generate, PrintsJsonPerPromptInOrder) {
  std::ofstream(directory + "/prompts") << "line 1\nthat goes\n\nof the text that goes\n";
  const Outcome outcome =
      generate("run --file prompts --lines --json --max-tokens 12 --batch 2 --seed 3 --top-k 20 --top-p 0.95 --rate");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "tokens/s; first token after")) << outcome.err;
  const std::vector<json> lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[1]["prompt"], "that goes");
  EXPECT_EQ(lines[1]["prompt_tokens"], 9);
  for (const json& line : lines) {
    EXPECT_LE(line["tokens"].size(), 12U);
    EXPECT_TRUE(line["end"] == "max_tokens" || line["end"] == "end_token") << line;
  }
  const std::string same = "run --file prompts --lines --json --max-tokens 12 --top-k 20 --top-p 0.95 --seed ";
  EXPECT_EQ(generate(same + "3 --batch 1").out, outcome.out) << "the batch does not matter";
  EXPECT_NE(generate(same + "4").out, outcome.out);
  const Outcome shown = generate("run 'line 1' 'of the' --max-tokens 4");
  EXPECT_TRUE(contains(shown.out, "== 1: line 1 ==\n")) << shown.out;
  EXPECT_TRUE(contains(shown.out, "\n== 2: of the ==\n")) << shown.out;
}

TEST_F(Generate, EndsAtStopStrings) {
  const Outcome all = generate("run 'line 1 of' --temperature 0 --max-tokens 30");
  ASSERT_EQ(all.out.size(), 31U);
  const std::string stop = all.out.substr(5, 3);
  const Outcome outcome = generate("run 'line 1 of' --temperature 0 --max-tokens 30 --json --stop '" + stop + "'");
  const json line = json::parse(outcome.out);
  EXPECT_EQ(line["end"], "stopped");
  EXPECT_EQ(line["text"], all.out.substr(0, all.out.find(stop)));
}

TEST_F(Generate, AnswersLineByLine) {
  std::ofstream(directory + "/lines") << "line 1\n\nline 2\n";
  const Outcome outcome = generate("run --interactive --temperature 0 --max-tokens 6 <lines");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string one = generate("run 'line 1' --temperature 0 --max-tokens 6").out;
  const std::string two = generate("run 'line 2' --temperature 0 --max-tokens 6").out;
  EXPECT_EQ(outcome.out, one + two);
}

TEST_F(Generate, ReadsPromptsOfBoundedFilesAlone) {
  ASSERT_EQ(::mkfifo((directory + "/fifo").c_str(), 0600), 0);
  EXPECT_TRUE(contains(generate("run --file fifo").err, "must be a regular file, got a FIFO"));
  EXPECT_TRUE(contains(generate("run --file /dev/zero").err, "must be a regular file, got a device"));
  EXPECT_TRUE(contains(generate("run </dev/zero").err, "stdin must have at most 67108864 bytes"));
}

TEST_F(Generate, RejectsWhatDoesNotFit) {
  const auto rejects = [this](const std::string& arguments, int code, const std::string& words) {
    const Outcome outcome = generate(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << outcome.err;
    EXPECT_TRUE(contains(outcome.err, words)) << arguments << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
  };
  rejects("run '" + std::string(50, 'x') + "'", 2,
          "PROMPT: must have at most 48 tokens, the context of the model, got 50");
  rejects("text hello", 1, "must be a directory");
  rejects("run hello --mesh ep=2", 2, "--mesh: must have the form");
  rejects("run hello --mesh tp=3", 2, "mesh.tp");
  rejects("run hello --interactive", 2, "--interactive: excludes PROMPT");
  rejects("run hello --chat", 1, "tokenizer_config.json");
  rejects("run hello --system x", 2, "--system: requires --chat");
  rejects("run hello --file text", 2, "PROMPT: excludes --file");
  rejects("run --file nothing", 1, "'nothing': No such file or directory");
  rejects("run hello --top-p 0", 2, "--top-p");
  rejects("run hello --tokenizer nothing.json", 1, "nothing.json");
  EXPECT_TRUE(contains(generate("--help").out, "tessera generate run \"Once upon a time\""));
}

TEST_F(Generate, EvalGivesTheLossOfTheRun) {
  const auto want = summary()["held_out"]["loss"].get<double>();
  const Outcome outcome = eval("run --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json got = json::parse(outcome.out);
  EXPECT_EQ(got["loss"].get<double>(), want) << "the bits of the run";
  EXPECT_EQ(got["samples"], 10);
  EXPECT_EQ(got["tokens"], 480);
  EXPECT_EQ(got["step"], 40);
  EXPECT_DOUBLE_EQ(got["perplexity"].get<double>(), std::exp(want));
  const json on_mesh = json::parse(eval("run --json --mesh dp=2,tp=2").out);
  EXPECT_NEAR(on_mesh["loss"].get<double>(), want, 1e-5);
  ASSERT_EQ(in_directory("checkpoint export run -o exported").code, 0);
  const json files = json::parse(eval("exported --data other --tokenizer bytes --json").out);
  const double of_run = json::parse(eval("run --data other --json").out)["loss"].get<double>();
  EXPECT_NEAR(files["loss"].get<double>(), of_run, 1e-5) << "a model of transformers, in batches of another size";
  const Outcome other = eval("run --data other");
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_TRUE(contains(other.out, "eval.perplexity\t")) << other.out;
  const json few = json::parse(eval("run --data other --samples 3 --json --dtype bf16").out);
  EXPECT_EQ(few["tokens"], 144);
  EXPECT_EQ(eval("run --data nothing").code, 1);
}

}  // namespace
}  // namespace tessera::cli::testing
