// Tests that no command overwrites a file that it reads, under any name.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "tessera/cli/testing/run_program.h"
#include "tessera/cli/testing/simulated_run.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

using cli::testing::contains;
using cli::testing::content;
using cli::testing::Outcome;
namespace fs = std::filesystem;

class Outputs : public cli::testing::SimulatedRun {
 protected:
  [[nodiscard]] std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(directory)) {
      if (entry.is_regular_file()) all[entry.path().string()] = content(entry.path().string());
    }
    return all;
  }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(directory + "/" + name).parent_path());
    std::ofstream(directory + "/" + name) << text;
  }
  // Expects a failure that names the option and changes no file.
  void expect_rejected(const std::string& arguments, const std::string& option, int code = 2) const {
    const auto before = contents();
    const Outcome outcome = cli::testing::tessera(arguments, "cd " + directory + " &&");
    EXPECT_EQ(outcome.code, code) << arguments << ": " << outcome.err;
    EXPECT_TRUE(contains(outcome.err, option + ": must not be an input, got '")) << arguments << ": " << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "; give another path")) << outcome.err;
    EXPECT_EQ(contents(), before) << arguments;
  }
  [[nodiscard]] Outcome ran(const std::string& arguments) const {
    return cli::testing::tessera(arguments, "cd " + directory + " &&");
  }
};

TEST_F(Outputs, TokenizeKeepsItsInputs) {
  write("text/a.txt", "some text of no great length");
  write("text/b.txt", "more of it");
  fs::create_symlink("text/a.txt", directory + "/symbolic");
  fs::create_hard_link(directory + "/text/b.txt", directory + "/hard");
  expect_rejected("tokenize text/a.txt -o text/a.txt", "tokenize: --output");
  expect_rejected("tokenize text/a.txt -o ./text/../text/a.txt", "tokenize: --output");
  expect_rejected("tokenize text -o text/b.txt", "tokenize: --output");
  expect_rejected("tokenize text -o symbolic", "tokenize: --output");
  expect_rejected("tokenize text -o hard", "tokenize: --output");
  expect_rejected("tokenize text -o x --learn 257 --save-tokenizer symbolic", "tokenize: --save-tokenizer");
  expect_rejected("tokenize text -o x --learn 257 --save-tokenizer x", "tokenize: --save-tokenizer");
  const Outcome learned = ran("tokenize text -o x --learn 257 --save-tokenizer t.json");
  EXPECT_EQ(learned.code, 0) << learned.err;
  expect_rejected("tokenize text -o t.json --tokenizer t.json", "tokenize: --output");
  EXPECT_EQ(ran("tokenize text -o x --tokenizer t.json").code, 0) << "an output of before is replaced";
}

TEST_F(Outputs, ReadersOfRunsKeepItsFiles) {
  work();
  write("run/summary.json", "{}");
  const std::string record = record_of(0);
  fs::create_hard_link(record, directory + "/hard");
  fs::create_symlink(record, directory + "/symbolic");
  for (const std::string& output : {record, directory + "/hard", directory + "/symbolic"}) {
    expect_rejected("memory dump " + record + " -o " + output, "memory dump: --output");
    expect_rejected("view run --out " + output, "view: --out");
  }
  expect_rejected("view run --out run/summary.json", "view: --out");
  for (const auto& [format, name] : {std::pair<std::string, std::string>{"chrome", "trace_rank_0.json"},
                                     {"torch-fr", "comm_lib_trace_rank_0"},
                                     {"torch-memory", "memory_rank_0.pickle"},
                                     {"json", "evidence.json"}}) {
    fs::create_directories(directory + "/to_" + format);
    fs::create_symlink(record, directory + "/to_" + format + "/" + name);
    expect_rejected("export run --to " + format + " --out to_" + format, "export: --out");
  }
  ASSERT_EQ(ran("export run --to torch-fr --out pickles").code, 0);
  expect_rejected("export pickles --to torch-fr --out pickles", "export: --out");
  EXPECT_EQ(ran("view run --out run/report.html").code, 0);
  EXPECT_EQ(ran("view run --out run/report.html").code, 0) << "an output of before is replaced";
  EXPECT_EQ(ran("export run --to json --out run").code, 0);
  EXPECT_EQ(ran("export run --to json --out run").code, 0);
}

TEST_F(Outputs, TrainKeepsItsInputs) {
  const std::string text(20'000, 'x');
  write("text/a.txt", text);
  write("run/a.txt", text);
  write("run/tokenizer.json", "{}");
  fs::create_symlink("run", directory + "/symbolic");
  fs::create_symlink("run/a.txt", directory + "/file");
  const auto expect_refused = [&](const std::string& arguments, const std::string& words) {
    const auto before = contents();
    const Outcome outcome = ran("train --train.steps 1 " + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments << ": " << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "train: " + words)) << arguments << ": " << outcome.err;
    EXPECT_EQ(contents(), before) << arguments;
  };
  const std::string in_run = "--run.directory: must not contain an input, got '";
  expect_refused("--data.files run/a.txt --run.directory run", in_run + "run' and the input 'run/a.txt'");
  expect_refused("--data.files run/a.txt=2 --run.directory run", in_run);
  expect_refused("--data.files run --run.directory run", in_run);
  expect_refused("--data.files file --run.directory run", in_run);
  expect_refused("--data.files run/a.txt --run.directory symbolic", in_run);
  expect_refused("-n 2 --data.files run/a.txt --run.directory run", in_run);
  expect_refused("--data.files text --data.held_out run/a.txt --run.directory run", in_run);
  expect_refused("--data.files text --data.tokenizer run/tokenizer.json --run.directory run", in_run);
  expect_refused("--data.files run --run.directory run/new",
                 "--run.directory: must not be inside an input, got 'run/new'");
  expect_refused("--data.files . --run.directory new/deep", "--run.directory: must not be inside an input");
  expect_refused("--data.files run/a.txt --run.directory new --checkpoint.directory symbolic",
                 "--checkpoint.directory: must not contain an input, got 'symbolic'");
  expect_refused("--data.files text --run.directory new --checkpoint.directory text/checkpoints",
                 "--checkpoint.directory: must not be inside an input");
}

TEST_F(Outputs, ReshardKeepsItsCheckpoint) {
  train::CheckpointState state;
  state.tensors.emplace_back("weight", ops::full({4}, 3.0F));
  train::CheckpointWriter writer({.directory = run + "/checkpoints"});
  writer.save(7, state);
  writer.finish();
  ASSERT_TRUE(writer.take_errors().empty());
  fs::create_symlink("run/checkpoints", directory + "/symbolic");
  expect_rejected("checkpoint reshard run --ranks 1 --out run/checkpoints", "checkpoint reshard: --out", 1);
  expect_rejected("checkpoint reshard run --ranks 1 --out symbolic", "checkpoint reshard: --out", 1);
  expect_rejected("checkpoint reshard run --ranks 1 --out run/checkpoints/step-000000007", "checkpoint reshard: --out",
                  1);
  EXPECT_EQ(ran("checkpoint reshard run --ranks 2 --out other").code, 0);
}

}  // namespace
}  // namespace tessera
