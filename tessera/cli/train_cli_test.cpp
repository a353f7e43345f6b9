// Tests `tessera train` from the command line. tessera/train has detailed tests of a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <nlohmann/json.hpp>

#include "tessera/cli/testing/train_directory.h"
#include "tessera/train/config.h"

namespace tessera::cli::testing {
namespace {

class Train : public TrainDirectory {
 protected:
  // Trains, and runs `then` in a shell when metrics.jsonl contains this step; $job is the process of the command.
  Outcome train_and(const std::string& arguments, int step, const std::string& then) const {
    return script("$tessera train " + arguments + " &\njob=$!\nuntil_test grep -qs '\"step\":" + std::to_string(step) +
                  ",' run/metrics.jsonl\n" + then + "\nwait $job\n");
  }
  std::string run(const std::string& file) const { return content(directory + "/run/" + file); }

  // A model that trains quickly.
  const std::string small =
      "--model.width 32 --model.layers 1 --model.hidden 32 --model.sequence 16 --data.files text --train.steps 4 "
      "--eval.samples 8 --run.directory run ";
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

// Returns a configuration without the comments that state the defaults of changed options.
std::string values_in(const std::string& configuration) {
  static const std::regex kDefault("  # default: [^\n]*");
  return std::regex_replace(configuration, kDefault, "");
}

TEST_F(Train, HelpHasEveryOption) {
  const Outcome help = train("--help");
  EXPECT_EQ(help.code, 0);
  for (const train::Option& option : train::options()) {
    EXPECT_EQ(count(help.out, "\n  --" + option.name + " "), 1u) << option.name;
    EXPECT_TRUE(contains(help.out, option.help)) << option.name;
  }
  for (const char* part : {"\nModel:\n", "\nRun:\n", "default 0.003", "f32|bf16", "--config FILE", "-n,--ranks"})
    EXPECT_TRUE(contains(help.out, part)) << part;
}

TEST_F(Train, CommandLineWinsOverTheFileAndPrintsWhatComesOut) {
  std::ofstream(directory + "/run.toml") << "[train]\nsteps = 7\nbatch = 4\n[data]\nfiles = [\"a\", \"b\"]\n";
  const Outcome outcome =
      train("-n 2 --config run.toml --train.steps 9 --train.steps=11 --data.files c --mesh.tp 2 --print-config");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"\nsteps = 11\n", "\nbatch = 4\n", "\nfiles = [\"c\"]\n", "\ndp = 1\n", "\nwidth = 128\n"})
    EXPECT_TRUE(contains(values_in(outcome.out), part)) << part << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "\nsteps = 11  # default: 1000\n")) << outcome.out;
}

TEST_F(Train, RefusesOptionsThatMakeNoSenseBeforeAnythingRuns) {
  const auto refuses = [this](const std::string& arguments, const std::string& words) {
    const Outcome outcome = train(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments << outcome.err;
    EXPECT_TRUE(contains(outcome.err, words)) << outcome.err;
    EXPECT_EQ(count(outcome.err, "\n"), 1u) << outcome.err;
  };
  refuses(small + "--model.layres 3", "'--model.layres' (did you mean '--model.layers'?)");
  refuses(small + "--train.dtype bf61", "train.dtype: must be one of f32|bf16, got 'bf61' (did you mean 'bf16'?)");
  refuses(small + "--optimizer.learning_rate 0", "optimizer.learning_rate: must be a number, above 0, got 0");
  refuses("-n 3 --mesh.tp 2 " + small, "must divide the world of 3 ranks, got 2");
  refuses("-n 2", "--data.files: required, as in --data.files my.txt");
  std::ofstream(directory + "/run.toml") << "[train]\nstep = 7\n";
  refuses("--config run.toml " + small, "run.toml:2: section [train] has no key 'step' (did you mean 'steps'?)");
  EXPECT_FALSE(std::filesystem::exists(directory + "/run"));
  EXPECT_EQ(train("--config none.toml " + small).code, 2);
}

TEST_F(Train, PrintsTheShardingOfEveryParameter) {
  std::ofstream(directory + "/run.toml") << "[sharding]\nmlp = \"\"\n";
  const std::string four = "-n 4 --mesh.fsdp 2 --mesh.tp 2 --print-sharding " + small;
  const Outcome outcome = train("--config run.toml --sharding.vocab=none " + four);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part :
       {"mesh: dp=1, fsdp=2, tp=2\n", "\nmlp = \"\"\n", "\nvocab = \"\"\n", "\nheads = \"tp\"\n",
        "layers.0.self_attn.q_proj.weight", "[heads, embed]", "{Replicate(), Shard(0, order=1), Shard(0, order=0)}"})
    EXPECT_TRUE(contains(outcome.out, part)) << part << "\n" << outcome.out;
  const Outcome refused = train("--sharding.embed=tp " + four);
  EXPECT_EQ(refused.code, 1);
  EXPECT_TRUE(contains(refused.err, "must use different axes, got tp for both")) << refused.err;
  EXPECT_EQ(train("--sharding.mlp=pp " + four).code, 2);
  EXPECT_FALSE(std::filesystem::exists(directory + "/run"));
}

TEST_F(Train, RanksItStartsHaveItsShardingTable) {
  std::ofstream(directory + "/run.toml") << "[sharding]\nmlp = \"\"\nvocab = \"none\"\n";
  const Outcome outcome = train("-n 2 --mesh.tp 2 --config run.toml " + small);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(values_in(run("config.toml")), "\nmlp = \"\"\n")) << run("config.toml");
  EXPECT_TRUE(contains(values_in(run("config.toml")), "\nvocab = \"none\"\n")) << run("config.toml");
}

TEST_F(Train, StartsFromWeightsAndMergesAdapters) {
  ASSERT_EQ(train(small).code, 0);
  const std::string tuned = small + "--run.directory tuned --init run --lora.rank 2 ";
  const Outcome outcome = train("--device host " + tuned);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(
      contains(outcome.out, "the initial weights are those of " + directory + "/run/checkpoints/step-000000004"))
      << outcome.out;
  const Outcome merged = tessera("checkpoint merge " + directory + "/tuned --out " + directory + "/merged");
  EXPECT_EQ(merged.code, 0) << merged.err;
  EXPECT_TRUE(contains(merged.out, "merged/step-000000004: 12 tensors")) << merged.out;
  const Outcome refused = tessera("checkpoint merge " + directory + "/run --out " + directory + "/other");
  EXPECT_EQ(refused.code, 1);
  EXPECT_TRUE(contains(refused.err, "must be a checkpoint of LoRA adapters")) << refused.err;
  const Outcome unknown = train(small + "--run.directory new --device abacus");
  EXPECT_EQ(unknown.code, 1);
  EXPECT_TRUE(contains(unknown.err, "run.device: must be auto or a device of this machine, got 'abacus'"))
      << unknown.err;
}

TEST_F(Train, TrainsOnRanksItStarts) {
  const Outcome outcome = train("-n 2 --mesh.tp 2 --run.sample 5 --eval.every 2 --run.log_every 1 " + small);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("llama tiny (changed): ")) << outcome.out;
  EXPECT_EQ(count(outcome.out, "\nmesh tp=2 on 2 ranks (shm, host); batch 8 x 16 tokens; f32 compute, "), 1u)
      << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "run directory: " + directory + "/run\nstep 1/4  loss ")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "step 2/4  held-out loss ")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "the bigram entropy of that text, ")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "run directory: " + directory + "/run\n")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "\na sample of 5 tokens:\n")) << outcome.out;
  EXPECT_EQ(count(outcome.out, "step 1/4"), 1u) << "one rank speaks for all";
  EXPECT_EQ(outcome.err, "");

  const auto summary = nlohmann::json::parse(run("summary.json"));
  EXPECT_EQ(summary.at("end"), "done");
  EXPECT_EQ(summary.at("ranks").size(), 2u);
  EXPECT_GT(summary.at("mfu").at("full"), 0);
  EXPECT_EQ(summary.at("mfu").at("peak"), "measured products");
  EXPECT_EQ(summary.at("held_out").at("evaluations").size(), 2u);
  EXPECT_EQ(count(run("metrics.jsonl"), "{\"rank\":0,"), 4u);
  EXPECT_EQ(count(run("metrics.jsonl"), "{\"rank\":1,"), 4u);
  EXPECT_EQ(count(run("loss.csv"), "\n"), 5u);

  train::Config config;
  train::read_toml(config, directory + "/run/config.toml");
  EXPECT_EQ(train::hash_of(config), summary.at("configuration").at("hash").get<std::string>())
      << "what is kept is what ran";
  EXPECT_EQ(config.mesh.tp, 2);
  EXPECT_EQ(train("-n 2 --mesh.tp 2 " + small).code, 1) << "a directory that holds a run is not written over";
}

TEST_F(Train, ReplaysStepsWithTheSameNumbers) {
  const std::string options = "-n 2 --mesh.fsdp 2 --model.dropout 0.1 --run.log_every 1 ";
  const Outcome asked = train(options + small);
  ASSERT_EQ(asked.code, 0) << asked.err;
  const std::string want = run("loss.csv");
  std::filesystem::remove_all(directory + "/run");
  const Outcome outcome = train("--graph " + options + small);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(run("loss.csv"), want);
  EXPECT_TRUE(contains(values_in(run("config.toml")), "\ngraph = true\n")) << run("config.toml");
}

TEST_F(Train, IsARankOfTheWorldItWasStartedIn) {
  const Outcome outcome = tessera("run -n 2 --run-dir launched -- '" TESSERA_PROGRAM "' train " + small,
                                  "cd " + directory + " && TESSERA_RECORD_BYTES=1MiB");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(run("summary.json")).at("mesh").at("dp"), 2);
  EXPECT_TRUE(contains(outcome.out, "[0] step 4/4")) << outcome.out;
  const Outcome nested = tessera("run -n 2 --run-dir launched -- '" TESSERA_PROGRAM "' train -n 2 " + small,
                                 "cd " + directory + " && TESSERA_RECORD_BYTES=1MiB");
  EXPECT_EQ(nested.code, 2);
  EXPECT_TRUE(contains(nested.err, "-n: must be omitted in a rank that a launcher started")) << nested.err;
}

TEST_F(Train, LeavesItsRecordsInItsRunDirectoryWhoeverStartedIt) {
  const auto records = [](const std::string& path) {
    std::size_t found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path)) found += entry.path().extension() == ".record";
    return found;
  };
  EXPECT_EQ(train(small).code, 0);
  EXPECT_EQ(records(directory + "/run"), 1u);
  EXPECT_TRUE(contains(run("report.html"), "no fault: 1 rank ended normally"));
  const std::string nameless = small.substr(0, small.find("--run.directory"));
  EXPECT_EQ(train(nameless).code, 0);
  for (const auto& entry : std::filesystem::directory_iterator(directory + "/runs"))
    EXPECT_EQ(records(entry.path()), 1u) << entry.path();
  // Starts ranks as a foreign launcher does.
  std::ofstream(directory + "/script")
      << "export TESSERA_RECORD_BYTES=1MiB WORLD_SIZE=2 TESSERA_STORE=file://$PWD/store\n"
         "RANK=1 '" TESSERA_PROGRAM "' train "
      << nameless << "--run.directory two &\nRANK=0 '" TESSERA_PROGRAM "' train " << nameless
      << "--run.directory two\nwait\n";
  ASSERT_EQ(std::system(("cd " + directory + " && sh script >out 2>err").c_str()), 0) << content(directory + "/err");
  EXPECT_EQ(records(directory + "/two"), 2u);
  const std::string page = content(directory + "/two/report.html");
  EXPECT_TRUE(contains(page, "no fault: 2 ranks ended normally")) << content(directory + "/out");
  EXPECT_FALSE(contains(page, "are still running;"));
  const Outcome elsewhere =
      tessera("train " + nameless + "--run.directory three", "cd " + directory + " && TESSERA_RUN_DIR=told");
  EXPECT_EQ(elsewhere.code, 0) << elsewhere.err;
  EXPECT_EQ(records(directory + "/told"), 1u);
  EXPECT_EQ(records(directory + "/three"), 0u);
}

TEST_F(Train, HasABarOnATerminal) {
  if (std::system("script -qec true /dev/null </dev/null >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "script(1) cannot make a terminal here: it is absent, or there are no pseudo-terminals";
  const std::string command =
      "cd " + directory + " && TESSERA_RECORD_BYTES=1MiB script -qec \"'" TESSERA_PROGRAM "' train -n 2 --mesh.tp 2 " +
      small + "\" /dev/null </dev/null >out";
  EXPECT_EQ(std::system(command.c_str()), 0) << content(directory + "/out");
  const std::string text = content(directory + "/out");
  EXPECT_TRUE(contains(text, "\n\x1b[K[")) << text;
  EXPECT_TRUE(contains(text, "\x1b[K[####################] step 4/4")) << text;
  EXPECT_TRUE(contains(text, "\r\r\n4 steps, ")) << "the bar stays above what is said at the end\n" << text;
}

TEST_F(Train, ARunThatIsStoppedSaysWhyAndLeavesItsFiles) {
  const Outcome outcome = train("-n 2 --optimizer.kind sgd --optimizer.learning_rate 1e30 --optimizer.clip 0 " + small);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(contains(outcome.out, "stopped after 1 of 4 steps: ")) << outcome.out;
  const auto summary = nlohmann::json::parse(run("summary.json"));
  EXPECT_EQ(summary.at("end"), "stopped");
  EXPECT_TRUE(contains(summary.at("reason"), "not finite")) << summary.at("reason");
  EXPECT_TRUE(contains(summary.at("reason"), "loss nan")) << "what is no number has no sign: " << summary.at("reason");
  EXPECT_EQ(summary.at("ranks").size(), 2u) << "all ranks had time to report";
  EXPECT_EQ(count(run("metrics.jsonl"), "\n"), 2u);
  const Outcome explained = tessera("explain " + directory + "/run");
  EXPECT_EQ(explained.code, 3) << explained.err;
  EXPECT_TRUE(contains(explained.out, "\nverdict: the trainer stopped the run: ")) << explained.out;
}

const std::string kPidOfRank1 = "$(tr -d ' \\n' <run/launch.json | sed 's/.*\"rank\":1,\"pid\":\\([0-9]*\\).*/\\1/')";

TEST_F(Train, IsStartedAgainAndGoesOnFromItsLastCheckpoint) {
  const std::string options =
      "-n 2 --restarts 2 " + small + " --train.steps 2000 --eval.every 0 --checkpoint.every 100";
  const std::string has_checkpoint = "until_test sh -c 'ls run/checkpoints | grep -q \"^step-[0-9]*$\"'\n";
  const Outcome outcome = train_and(options, 150, has_checkpoint + "kill -9 " + kPidOfRank1);
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "rank 1 was killed by signal 9")) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "(restart 1 of 2)")) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "resuming after step ")) << outcome.out;
  const auto summary = nlohmann::json::parse(run("summary.json"));
  EXPECT_EQ(summary.at("end"), "done");
  EXPECT_EQ(summary.at("resumed_from").size(), 1u);
  EXPECT_EQ(count(run("loss.csv"), "\n"), 2001u) << "each step is reported once";
  EXPECT_EQ(count(run("metrics.jsonl"), "\n"), 4000u);
}

TEST_F(Train, ATermEndsItWithACheckpointAndTheSameCommandGoesOn) {
  const std::string options = "-n 2 " + small + " --train.steps 600 --eval.every 0 --checkpoint.every 1000";
  const Outcome stopped = train_and(options, 20, "kill $job");
  EXPECT_EQ(stopped.code, 0) << stopped.out << stopped.err;
  EXPECT_TRUE(contains(stopped.out, "interrupted after ")) << stopped.out;
  const auto first = nlohmann::json::parse(run("summary.json"));
  EXPECT_EQ(first.at("end"), "interrupted");
  EXPECT_EQ(first.at("checkpoints").at("last"), first.at("steps"));
  const Outcome done = train(options);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(contains(done.out, "resuming after step " + first.at("steps").dump())) << done.out;
  EXPECT_EQ(nlohmann::json::parse(run("summary.json")).at("resumed_from").at(0), first.at("steps"));
}

TEST_F(Train, GoesOnWithoutARankThatDied) {
  const std::string options =
      "-n 2 --on-failure shrink " + small + " --train.steps 1000 --eval.every 0 --checkpoint.every 100";
  const Outcome outcome = train_and(options, 150, "kill -9 " + kPidOfRank1);
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "continuing with 1 of 2 ranks")) << outcome.out;
  const auto summary = nlohmann::json::parse(run("summary.json"));
  EXPECT_EQ(summary.at("end"), "done");
  EXPECT_EQ(summary.at("world_size"), 1);
  EXPECT_EQ(count(run("loss.csv"), "\n"), 1001u);
  const Outcome explained = tessera("explain " + directory + "/run");
  EXPECT_TRUE(contains(explained.out,
                       "/run: 1 rank\n"
                       "before: 2 ranks started; rank 1 was killed by signal 9 (Killed)\n"))
      << explained.out;
  EXPECT_TRUE(contains(explained.out, "verdict: no fault: 1 rank ended normally")) << explained.out;
  EXPECT_TRUE(contains(run("report.html"), "2 ranks started; rank 1 was killed by signal 9 (Killed)"));
}

TEST_F(Train, ProfilesWhenASignalAsksOnAllRanks) {
  const Outcome outcome = train_and("-n 2 " + small + " --train.steps 500 --eval.every 0", 20, "kill -USR1 $job");
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const std::size_t at = outcome.out.find(directory + "/run/profile-");
  ASSERT_NE(at, std::string::npos) << outcome.out;
  const std::string folder = outcome.out.substr(at, outcome.out.find('\n', at) - at);
  for (const char* file :
       {"/rank-0.trace.json", "/rank-1.trace.json", "/rank-0.memory.pickle", "/rank-1.memory.pickle"})
    EXPECT_TRUE(std::filesystem::exists(folder + file)) << folder << file;
  const auto trace = nlohmann::json::parse(content(folder + "/rank-1.trace.json"));
  EXPECT_EQ(trace.at("distributedInfo").at("rank"), 1);
  EXPECT_TRUE(contains(trace.dump(), "\"cat\":\"kernel\""));
}

TEST_F(Train, ShortNamesOfWhatIsAskedForByHand) {
  const Outcome outcome = train("--dump-step 3 --profile-steps 2..3 --print-config " + small);
  EXPECT_TRUE(contains(values_in(outcome.out), "\ndump_step = 3\n")) << outcome.out << outcome.err;
  EXPECT_TRUE(contains(values_in(outcome.out), "\nprofile_steps = \"2..3\"\n")) << outcome.out;
  EXPECT_EQ(train("--restarts 2 " + small).code, 2) << "that is for ranks that it starts";
}

TEST_F(Train, OfTwoNamesOfAnOptionTheLastOneWins) {
  const auto expect_printed = [this](const std::string& arguments, const std::string& line) {
    const Outcome outcome = train(arguments + " --print-config " + small);
    EXPECT_TRUE(contains(values_in(outcome.out), "\n" + line + "\n")) << arguments << outcome.out << outcome.err;
  };
  expect_printed("--graph", "graph = true");
  expect_printed("--graph --train.graph false", "graph = false");
  expect_printed("--train.graph false --graph", "graph = true");
  expect_printed("--deterministic", "deterministic = true");
  expect_printed("--force --run.force=false", "force = false");
  expect_printed("--dump-step 3 --run.dump_step 2", "dump_step = 2");
  expect_printed("--run.dump_step 2 --dump-step 3", "dump_step = 3");
}

TEST_F(Train, AMissingFileIsNamed) {
  const std::string nameless = small.substr(0, small.find("--run.directory"));
  for (const char* ranks : {"", "-n 2 "}) {
    const Outcome outcome = train(ranks + nameless + "--data.files nothing_here");
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "nothing_here")) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(directory + "/runs")) << "a rejected start leaves nothing: " << ranks;
  }
}

TEST_F(Train, DataThatDoNotFitTheModelLeaveNoDirectory) {
  const std::string nameless = small.substr(0, small.find("--run.directory"));
  std::ofstream(directory + "/short") << "ab";
  for (const char* ranks : {"", "-n 2 "}) {
    for (const auto& [options, words] :
         {std::pair("--model.vocabulary 64", "model.vocabulary: must be larger"),
          std::pair("--data.files short", "short"), std::pair("--data.files=", "data.files")}) {
      const Outcome outcome = train(ranks + nameless + options);
      EXPECT_NE(outcome.code, 0) << options;
      EXPECT_TRUE(contains(outcome.err, words)) << outcome.err;
      EXPECT_FALSE(std::filesystem::exists(directory + "/runs")) << ranks << options << ": " << outcome.err;
    }
  }
}

TEST_F(Train, RanksMayBeThreadsOfTheCommand) {
  const Outcome threads = train("-n 2 --ranks-as threads " + small);
  EXPECT_EQ(threads.code, 0) << threads.err;
  EXPECT_TRUE(contains(threads.out, "mesh dp=2 on 2 ranks (thread, host)")) << threads.out;
  EXPECT_TRUE(contains(threads.out, "report.html")) << threads.out;
  EXPECT_EQ(train("-n 2 " + small + "--run.directory processes").code, 0);
  EXPECT_EQ(run("loss.csv"), content(directory + "/processes/loss.csv"));
  EXPECT_TRUE(contains(train("-n 2 --ranks-as threads " + small).out, "is already finished"));
  for (const char* wrong : {"", "-n 2 --pin ", "-n 2 --restarts 1 "}) {
    const Outcome refused = train("--ranks-as threads " + (wrong + small));
    EXPECT_EQ(refused.code, 2) << wrong;
    EXPECT_TRUE(contains(refused.err, "--ranks-as threads: requires -n, and excludes --restarts")) << refused.err;
  }
}

TEST_F(Train, ARunThatDoesNotFitIntoMemoryIsRejected) {
  for (const char* ranks : {"", "-n 2 "}) {
    const Outcome outcome = train(ranks + small + "--model.width 4096 --model.layers 4000");
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with("tessera: train: predicted peak ")) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "; --force starts anyway\n")) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(directory + "/run"));
  }
  const Outcome capped = tessera("train " + small, "cd " + directory + " && TESSERA_HOST_CAPACITY=100KiB");
  EXPECT_TRUE(contains(capped.err, " per rank exceeds TESSERA_HOST_CAPACITY, 100 KiB; ")) << capped.err;
}

TEST_F(Train, RanksOfAnotherLauncherThatDifferEndWithAnErrorThatNamesThem) {
  const Outcome outcome = script(
      "export WORLD_SIZE=2 TESSERA_STORE=file://$PWD/store\n"
      "RANK=1 $tessera train " +
      small +
      "--checkpoint.every 3 2>err1 &\n"
      "RANK=0 $tessera train " +
      small + "\ncode=$?\nwait $! && exit 99\nexit $code\n");
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  for (const std::string& text : {outcome.err, content(directory + "/err1")})
    EXPECT_TRUE(contains(text, "checkpoint.every is 200 on rank 0 and 3 on rank 1")) << text;
  EXPECT_FALSE(std::filesystem::exists(directory + "/run/config.toml"));
}

}  // namespace
}  // namespace tessera::cli::testing
