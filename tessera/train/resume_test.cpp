// Checkpoints of runs in one process: resuming, rejection, and resulting files.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/analysis/testing/trace_rows.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/tensor/safetensors.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/detail/resume.h"
#include "tessera/train/run.h"
#include "tessera/train/testing/told_runs.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::content;
using testing::difference;
using testing::left_by;
using testing::lines_of;

class RunAgain : public testing::ToldRuns {
 protected:
  [[nodiscard]] nlohmann::json summary(const char* name = "run") const {
    return nlohmann::json::parse(content(path(name) / "summary.json"), nullptr, false);
  }
  // Takes 5 of the 12 steps.
  void begin(const Config& config) { EXPECT_EQ(run_and(config, "step 5/").end, RunEnd::kInterrupted); }
};

TEST_F(RunAgain, GoesOnWhereItWasAskedToEndAndLeavesWhatOneRunLeaves) {
  EXPECT_EQ(run_and(config("whole")).end, RunEnd::kDone);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const std::string name = "stopped" + std::to_string(signal);
    const Config stopped = config(name.c_str());
    EXPECT_EQ(run_and(stopped, "step 5/", signal).end, RunEnd::kInterrupted);
    EXPECT_EQ(summary(name.c_str()).at("end"), "interrupted");
    EXPECT_EQ(summary(name.c_str()).at("checkpoints").at("last"), 5);
    const RunSummary done = run_and(stopped);
    EXPECT_TRUE(contains(said, "resuming after step 5 from " + path(name.c_str()).string())) << said;
    EXPECT_EQ(done.resumed_from, std::vector<std::int64_t>{5});
    EXPECT_EQ(difference(left_by(path(name.c_str())), left_by(path("whole"))), "");
    EXPECT_EQ(testing::wrong_lines(path(name.c_str()), 12, 1), "");
    EXPECT_EQ(summary(name.c_str()).at("tokens"), summary("whole").at("tokens"));
    EXPECT_EQ(summary(name.c_str()).at("held_out"), summary("whole").at("held_out"));
    double seconds = 0;
    for (const std::string& line : lines_of(path(name.c_str()) / "metrics.jsonl"))
      seconds += nlohmann::json::parse(line).at("seconds").get<double>();
    EXPECT_NEAR(summary(name.c_str()).at("ranks").at(0).at("step_seconds"), seconds, 1e-9) << "of the whole run";
  }
}

TEST_F(RunAgain, ReplayedStepsGoOnAsTheyWouldHave) {
  (void)run_and(config("whole"));
  Config replayed = config();
  replayed.train.graph = true;
  replayed.run.dump_step = 7;
  begin(replayed);
  EXPECT_EQ(run_and(replayed).resumed_from, std::vector<std::int64_t>{5});
  EXPECT_EQ(difference(left_by(path()), left_by(path("whole"))), "");
  EXPECT_TRUE(fs::exists(path() / "dump-7" / "rank-0.safetensors"));
}

TEST_F(RunAgain, AProcessHasItsOwnSignalsBackAfterARun) {
  (void)run_and(config());
  struct sigaction now = {};
  ::sigaction(SIGTERM, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
  struct sigaction own = {};
  own.sa_handler = SIG_IGN;
  ::sigaction(SIGTERM, &own, nullptr);
  EXPECT_EQ(run_and(config("other"), "step 5/").end, RunEnd::kDone) << "what the program ignores does not end it";
  own.sa_handler = SIG_DFL;
  ::sigaction(SIGTERM, &own, nullptr);
}

TEST_F(RunAgain, AFinishedRunGoesOnWhenItsStepsAreRaised) {
  Config short_one = config();
  short_one.schedule.kind = "constant";
  short_one.train.steps = 6;
  (void)run_and(short_one);
  EXPECT_TRUE(run_and(short_one).was_finished);
  Config longer = short_one;
  longer.train.steps = 12;
  EXPECT_EQ(run_and(longer).steps, 12);
  Config whole = longer;
  whole.run.directory = path("whole").string();
  (void)run_and(whole);
  auto want = left_by(path("whole"));
  auto got = left_by(path());
  got["loss.csv"] = want["loss.csv"];  // the shorter one was evaluated at its end too
  EXPECT_EQ(difference(got, want), "");
  longer.train.steps = 10;
  expect_error<IoError>([&] { (void)run_and(longer); },
                        {path().string(), "already contains a finished run", "train.steps", "--run.directory"});
}

TEST_F(RunAgain, ADirectoryIsOfOneRunAtATime) {
  std::string refused;
  const testing::LineListener out([&](const std::string& line) {
    if (!line.starts_with("step 5/") || !refused.empty()) return;
    try {
      (void)run(config(), nullptr);
    } catch (const IoError& error) {
      refused = error.message();
    }
  });
  EXPECT_EQ(run(config(), out.file()).end, RunEnd::kDone);
  EXPECT_TRUE(contains(refused, "is in use by an active run")) << refused;
  EXPECT_EQ(testing::wrong_lines(path(), 12, 1), "");
}

TEST_F(RunAgain, OptionsThatChangeTheNumbersMayNotDiffer) {
  begin(config());
  const auto refuses = [&](const std::function<void(Config&)>& change, const std::string& words) {
    Config changed = config();
    change(changed);
    expect_error<InvalidArgument>([&] { (void)run_and(changed); },
                                  {words, "cannot resume from " + path().string(), "--run.directory"});
  };
  refuses([](Config& c) { c.train.seed = 2; }, "train.seed is 2 here, and was 1");
  refuses([](Config& c) { c.model.width = 32; }, "model.width is 32 here, and was 16");
  refuses([](Config& c) { c.optimizer.learning_rate = 1; }, "optimizer.learning_rate is 1 here, and was 0.003");
  refuses([](Config& c) { c.model.dropout = 0; }, "model.dropout");
  Config lower = config();
  lower.train.steps = 4;
  expect_error<InvalidArgument>([&] { (void)run_and(lower); }, {"after step 5", "train.steps is 4", "raise it"});
  EXPECT_EQ(lines_of(path() / "loss.csv").size(), 6u) << "what was refused changed nothing";
  Config free = config();
  free.eval.every = 3;
  free.train.on_nan = "skip";
  free.run.log_every = 7;
  EXPECT_EQ(run_and(free).end, RunEnd::kDone);
}

TEST_F(RunAgain, OtherDataAreRefusedAndTheSameElsewhereAreNot) {
  begin(config());
  Config moved = config();
  fs::rename(path("text"), path("moved"));
  moved.data.files = {path("moved").string()};
  {
    std::ofstream(path("text")) << std::string(9000, 'x');
    Config other = config();
    expect_error<InvalidArgument>([&] { (void)run_and(other); }, {"the data differ", "data.files"});
  }
  EXPECT_EQ(run_and(moved).end, RunEnd::kDone);
}

TEST_F(RunAgain, AWholeRunIsTakenAnewWhereThereIsNoCheckpoint) {
  Config none = config();
  none.checkpoint.every = 0;
  (void)run_and(none);
  fs::remove(path() / "summary.json");  // as if it had been killed at the end
  Config other = none;
  other.model.width = 32;
  expect_error<IoError>([&] { (void)run_and(other); },
                        {"already contains a run", "no valid checkpoint", "model.width is 32 here, and was 16"});
  EXPECT_EQ(run_and(none).end, RunEnd::kDone);
  EXPECT_TRUE(contains(said, "has no checkpoint; starting from step 0")) << said;
  EXPECT_EQ(testing::wrong_lines(path(), 12, 1), "");
  EXPECT_FALSE(fs::exists(path() / "checkpoints")) << "0 writes none";
}

TEST_F(RunAgain, WithoutACheckpointOtherOptionsAreRefusedToo) {
  Config none = config();
  none.checkpoint.every = 0;
  none.train.steps = 3;
  (void)run_and(none);
  fs::remove(path() / "summary.json");
  const std::string before = content(path() / "metrics.jsonl") + content(path() / "config.toml");
  const auto refuses = [&](const std::string& words, const std::function<void(Config&)>& change) {
    Config changed = none;
    change(changed);
    expect_error<IoError>([&] { (void)run_and(changed); },
                          {words, path().string(), "already contains a run", "no valid checkpoint", "--run.directory"});
  };
  refuses("train.seed is 2 here, and was 1", [](Config& c) { c.train.seed = 2; });
  refuses("optimizer.learning_rate is 1 here, and was 0.003", [](Config& c) { c.optimizer.learning_rate = 1; });
  refuses("train.batch is 8 here, and was 4", [](Config& c) { c.train.batch = 8; });
  refuses("data.files", [&](Config& c) {
    fs::copy_file(path("text"), path("other"));
    c.data.files = {path("other").string()};
  });
  EXPECT_EQ(content(path() / "metrics.jsonl") + content(path() / "config.toml"), before)
      << "what was refused changed nothing";
  Config free = none;  // options that may differ with a checkpoint may differ here
  free.run.log_every = 3;
  free.train.on_nan = "skip";
  EXPECT_EQ(run_and(free).end, RunEnd::kDone);
  fs::remove(path() / "summary.json");
  std::ofstream(path() / "config.toml") << "[train]\nsteps = \"many\"\n";
  refuses("its config.toml cannot be read", [](Config& /*same*/) {});
}

TEST_F(RunAgain, NeverRefusesAndAPathBeginsFromThere) {
  begin(config());
  Config never = config();
  never.checkpoint.resume = "never";
  expect_error<IoError>([&] { (void)run_and(never); }, {"already contains a run", "checkpoint.resume is never"});
  Config from = config("elsewhere");
  from.checkpoint.resume = path().string();
  EXPECT_EQ(run_and(from).resumed_from, std::vector<std::int64_t>{5});
  EXPECT_EQ(lines_of(path("elsewhere") / "metrics.jsonl").size(), 7u);
  Config one = config("third");
  one.checkpoint.resume = (path() / "checkpoints" / "step-000000004").string();
  EXPECT_EQ(run_and(one).resumed_from, std::vector<std::int64_t>{4});
  (void)run_and(config("whole"));
  auto want = left_by(path("whole"));
  for (const char* name : {"elsewhere", "third"}) {
    auto got = left_by(path(name));
    got["loss.csv"] = want["loss.csv"];
    EXPECT_EQ(difference(got, want), "") << name;
  }
  Config nothing = config("fourth");
  nothing.checkpoint.resume = path("nothing").string();
  expect_error<IoError>([&] { (void)run_and(nothing); }, {"nothing", "no valid checkpoint"});
}

// Changes a byte of a tensor in each file.
void damage(const fs::path& checkpoint) {
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    if (!entry.path().filename().string().starts_with("rank-")) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-5, std::ios::end);
    file.put('\x7f');
  }
}

// A resume needs its checkpoints and no other file.
TEST_F(RunAgain, OtherFilesMayBeMissingOrHoldAnything) {
  EXPECT_EQ(run_and(config("whole")).end, RunEnd::kDone);
  const auto checkpoint_of = [&](const char* name) {
    auto left = left_by(path(name));
    left["loss.csv"] = "";  // may lack lines
    return left;
  };
  struct Spoilt {
    const char* file;
    const char* bytes;  // null: it is removed
  };
  int number = 0;
  for (const Spoilt& each :
       {Spoilt{"summary.json", R"({"end":7,"steps":12})"}, Spoilt{"summary.json", R"({"end":"done","steps":12})"},
        Spoilt{"summary.json", R"({"end":"done","steps":"12"})"}, Spoilt{"summary.json", nullptr},
        Spoilt{"metrics.jsonl", "{\"rank\":\"x\",\"step\":1}\n"},
        Spoilt{"metrics.jsonl", "{\"rank\":0,\"step\":2,\"seconds\":[]}\n{\"rank\":0,\"step\":3}\n"},
        Spoilt{"metrics.jsonl", "[[[[[[\n\xff\xfe"}, Spoilt{"metrics.jsonl", nullptr}, Spoilt{"loss.csv", "\xff,\n"},
        Spoilt{"config.toml", "= = ["}, Spoilt{"config.toml", "[model]\nwidth = 64\n"},
        Spoilt{"config.toml", nullptr}}) {
    const std::string name = "corrupt" + std::to_string(number++);
    const Config spoilt = config(name.c_str());
    begin(spoilt);
    fs::remove(path(name.c_str()) / each.file);
    if (each.bytes != nullptr) std::ofstream(path(name.c_str()) / each.file) << each.bytes;
    const RunSummary done = run_and(spoilt);
    EXPECT_EQ(done.end, RunEnd::kDone) << each.file << ": " << (each.bytes != nullptr ? each.bytes : "missing");
    EXPECT_EQ(done.resumed_from, std::vector<std::int64_t>{5}) << each.file;
    EXPECT_EQ(difference(checkpoint_of(name.c_str()), checkpoint_of("whole")), "") << each.file;
  }
}

// A summary that no run writes counts as missing, for any size or depth.
TEST_F(RunAgain, ASummaryIsReadWithinBounds) {
  (void)run_and(config());
  const auto is_finished = [&] { return is_finished_already(config(), path().string(), 1); };
  EXPECT_TRUE(is_finished());
  const fs::path file = path() / "summary.json";
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  std::ofstream(file) << R"({"end": "done", "steps": 12, "deep": )" << deep << "}";
  EXPECT_FALSE(is_finished());
  std::ofstream(file) << R"({"end": "done", "steps": 12})" << std::string(8 << 20, ' ');
  EXPECT_TRUE(is_finished());
  std::ofstream(file) << R"({"end": "done", "steps": 12})" << std::string(16 << 20, ' ');
  EXPECT_FALSE(is_finished());
}

TEST_F(RunAgain, ADamagedCheckpointThatIsNamedIsRefused) {
  begin(config());
  const fs::path named = path() / "checkpoints" / "step-000000004";
  damage(named);
  Config from = config("elsewhere");
  from.checkpoint.resume = named.string();
  expect_error<IoError>([&] { (void)run_and(from); },
                        {named.string(), "rank-000000.safetensors", "checksum is wrong", "verify"});
  EXPECT_FALSE(fs::exists(path("elsewhere") / "config.toml"));
  fs::remove(named / "index.json");
  expect_error<IoError>([&] { (void)run_and(from); }, {named.string(), "index.json", "No such file"});
}

TEST_F(RunAgain, ADamagedCheckpointIsPassedOverWithAWord) {
  begin(config());
  damage(path() / "checkpoints" / "step-000000005");
  EXPECT_EQ(run_and(config()).resumed_from, std::vector<std::int64_t>{4});
  EXPECT_TRUE(contains(said, "step-000000005 is skipped")) << said;
  EXPECT_TRUE(contains(said, "\nresuming after step 4")) << "on a line of its own\n" << said;
  EXPECT_EQ(testing::wrong_lines(path(), 12, 1), "");
  (void)run_and(config("whole"));
  EXPECT_EQ(difference(left_by(path()), left_by(path("whole"))), "");
}

TEST_F(RunAgain, WhatCannotBeWrittenIsToldAndTheRunGoesOn) {
  Config config = this->config();
  std::ofstream(path("file")) << "no directory";
  config.checkpoint.directory = path("file").string();
  const RunSummary done = run_and(config);
  EXPECT_EQ(done.end, RunEnd::kFailed) << "it took all its steps, but what it trained is lost";
  EXPECT_EQ(done.steps, 12);
  EXPECT_EQ(summary().at("checkpoints").at("errors").size(), 6u);
  EXPECT_LT(said.find("could not be written"), said.find("step 12/12")) << "it is reported when it happens\n" << said;
  EXPECT_TRUE(contains(said, "6 checkpoints could not be written")) << said;
}

TEST_F(RunAgain, OnAnotherMeshItGoesOnWithTheSameNumbersButForRounding) {
  Config two = config();
  two.mesh.fsdp = 2;
  two.train.steps = 6;
  two.schedule.kind = "constant";
  two.model.dropout = 0;
  Config whole = two;
  whole.train.steps = 12;
  whole.run.directory = path("whole").string();
  simulate(2, [&] { (void)run(whole, nullptr); });
  simulate(2, [&] { (void)run(two, nullptr); });
  two.train.steps = 12;
  two.mesh.fsdp = 1;
  EXPECT_EQ(run_and(two).resumed_from, std::vector<std::int64_t>{6});
  const auto got = lines_of(path() / "loss.csv");
  const auto want = lines_of(path("whole") / "loss.csv");
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 1; i < got.size(); ++i) {
    const auto loss = [](const std::string& line) { return std::stod(line.substr(line.find(',') + 1)); };
    EXPECT_NEAR(loss(got[i]), loss(want[i]), 1e-5) << i;
  }
  EXPECT_EQ(nlohmann::json::parse(content(path() / "summary.json")).at("world_size"), 1);
}

TEST_F(RunAgain, AStepIsWrittenByNameWhereAskedFor) {
  Config config = this->config();
  config.run.dump_step = 3;
  (void)run_and(config);
  const tensor::SafetensorsFile file((path() / "dump-3" / "rank-0.safetensors").string());
  for (const char* name :
       {"parameters/layers.0.self_attn.q_proj.weight", "gradients/layers.0.self_attn.q_proj.weight",
        "optimizer/first/layers.0.self_attn.q_proj.weight", "optimizer/second/layers.0.self_attn.q_proj.weight",
        "optimizer/steps/0", "gradients/embed_tokens.weight"}) {
    EXPECT_TRUE(file.contains(name)) << name;
  }
  EXPECT_EQ(file.metadata().at("step"), "3");
  EXPECT_TRUE(lines_of(path() / "loss.csv").at(3).starts_with("3," + file.metadata().at("loss") + ","))
      << file.metadata().at("loss");
  EXPECT_EQ(*file.map("optimizer/steps/0").data_as<std::int64_t>(), 2) << "nothing is updated yet";
  EXPECT_FALSE(fs::exists(path() / "dump-2"));
}

// Returns the names of the work on streams in a trace, with counts.
std::map<std::string, int> kernels_in(const fs::path& trace) {
  std::map<std::string, int> names;
  const nlohmann::json json = nlohmann::json::parse(content(trace));
  for (const auto& event : json.at("traceEvents")) {
    if (event.value("cat", "") != "kernel") continue;
    ++names[event.at("name")];
    EXPECT_GE(event.at("dur"), 0);
  }
  return names;
}

TEST_F(RunAgain, StepsAreProfiledAsTheOptionsSay) {
  Config config = this->config();
  config.run.profile_steps = "3..4";
  (void)run_and(config);
  EXPECT_TRUE(contains(said, "profile of steps 3 to 4: " + (path() / "profile-3").string() + "\n")) << said;
  const auto two = kernels_in(path() / "profile-3" / "rank-0.trace.json");
  EXPECT_GT(two.size(), 5u) << "kernels have names";
  const auto trace = nlohmann::json::parse(content(path() / "profile-3" / "rank-0.trace.json"));
  EXPECT_EQ(analysis::testing::overlap(trace), "");
  for (const char* step : {"step 3", "step 4"})
    EXPECT_EQ(analysis::testing::events(trace, "name", step).size(), 1u) << step;
  for (const char* step : {"step 2", "step 5"})
    EXPECT_TRUE(analysis::testing::events(trace, "name", step).empty()) << step << " is not in the window";
  Config one = this->config("one");
  one.run.profile_steps = "3";
  (void)run_and(one);
  for (const auto& [name, count] : kernels_in(path("one") / "profile-3" / "rank-0.trace.json"))
    EXPECT_EQ(two.at(name), 2 * count) << name << ": only what ran in the window is in it";
  EXPECT_TRUE(content(path() / "profile-3" / "rank-0.memory.pickle").starts_with("\x80\x04"));
}

// A collective is in a profile once, eager or replayed; the graph that replays it is a kernel.
TEST_F(RunAgain, CollectivesAreInAProfileOnce) {
  Config config = this->config();
  config.mesh.fsdp = 2;
  config.run.profile_steps = "4..5";
  Config replayed = config;
  replayed.train.graph = true;
  replayed.run.directory = path("replayed").string();
  simulate(2, [&] { (void)run(config, nullptr); });
  simulate(2, [&] { (void)run(replayed, nullptr); });
  const auto collectives_in = [&](const fs::path& left, const char* rank) {
    const auto trace = nlohmann::json::parse(content(left / "profile-4" / (std::string(rank) + ".trace.json")));
    EXPECT_EQ(analysis::testing::overlap(trace), "");
    EXPECT_TRUE(analysis::testing::events(trace, "name", "all_gather").empty()) << "its launch is drawn";
    std::map<std::string, int> found;
    for (const auto& event : analysis::testing::events(trace, "cat", "kernel")) {
      if (event.at("args").contains("Collective name")) ++found[event.at("args").at("Collective name")];
    }
    return found;
  };
  for (const char* rank : {"rank-0", "rank-1"}) {
    const auto asked = collectives_in(path(), rank);
    EXPECT_GT(asked.at("_allgather_base"), 0);
    const auto in_graph = collectives_in(path("replayed"), rank);
    EXPECT_EQ(in_graph, asked);
    EXPECT_EQ(kernels_in(path("replayed") / "profile-4" / (std::string(rank) + ".trace.json")).at("graph"), 2);
  }
}

TEST_F(RunAgain, ASignalOrAFileAsksForAProfileOfTheNextSteps) {
  (void)run_and(config(), "step 4/", SIGUSR1);
  EXPECT_TRUE(contains(said, "profile of steps 5 to 7: ")) << said;
  EXPECT_FALSE(kernels_in(path() / "profile-5" / "rank-0.trace.json").empty());
  fs::create_directories(path("asked"));
  std::ofstream(path("asked") / "profile.request") << "now";
  EXPECT_EQ(run_and(config("asked")).end, RunEnd::kDone);
  EXPECT_TRUE(contains(said, "profile of steps 2 to 4: ")) << said;
  EXPECT_FALSE(fs::exists(path("asked") / "profile.request")) << "it was answered";
  (void)run_and(config("late"), "step 11/", SIGUSR1);
  EXPECT_TRUE(contains(said, "profile of steps 12 to 12: ")) << "the run ended before the window did\n" << said;
}

TEST_F(RunAgain, AProfileThatAnEarlierStartWasAskedForIsNotTaken) {
  begin(config());
  std::ofstream(path() / "profile.request") << "too late";
  EXPECT_EQ(run_and(config()).end, RunEnd::kDone);
  EXPECT_FALSE(contains(said, "profile of steps")) << said;
  EXPECT_FALSE(fs::exists(path() / "profile.request"));
}

TEST_F(RunAgain, OtherLinesAreCutOffByTheirStep) {
  fs::create_directories(path());
  std::ofstream(path() / "metrics.jsonl")
      << "{\"rank\":0,\"step\":1}\n{\"rank\":1,\"step\":3}\n{\"rank\":0,\"step\":2}\n"
      << "nothing\n{\"rank\":1,\"step\":2}\n{\"rank\":0,\"step\":1";
  std::ofstream(path() / "loss.csv") << "step,loss\n1,5\n2,4\n3,3\n";
  detail::cut_back(path(), 2);
  EXPECT_EQ(content(path() / "metrics.jsonl"),
            "{\"rank\":0,\"step\":1}\n{\"rank\":0,\"step\":2}\n{\"rank\":1,\"step\":2}\n");
  EXPECT_EQ(content(path() / "loss.csv"), "step,loss\n1,5\n2,4\n");
  detail::cut_back(path(), 0);
  EXPECT_EQ(content(path() / "metrics.jsonl"), "");
  EXPECT_EQ(content(path() / "loss.csv"), "step,loss\n");
}

}  // namespace
}  // namespace tessera::train
