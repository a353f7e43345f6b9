// A run without disk space continues, loses nothing else, and reports missing files at its end.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <thread>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/metrics.h"
#include "tessera/train/run.h"
#include "tessera/train/testing/scripted_steps.h"
#include "tessera/train/testing/told_runs.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::content;
using testing::lines_of;
using testing::ScriptedSteps;
using testing::TemporaryDirectory;

// Limits the size of files of this process during its lifetime: as on a full disk, the write that reaches the limit is
// truncated, and the next one fails.
class MostBytes {
 public:
  explicit MostBytes(rlim_t nbytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    set(nbytes);
  }
  ~MostBytes() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  MostBytes(const MostBytes&) = delete;
  MostBytes& operator=(const MostBytes&) = delete;

  void set(rlim_t nbytes) const {
    const rlimit now{nbytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &now), 0);
  }
  void lift() const { set(before_.rlim_cur); }

 private:
  void (*handler_)(int);
  rlimit before_ = {};
};

TEST(LineFile, OfALineThatFindsNoRoomNothingStays) {
  const TemporaryDirectory directory;
  LineFile file(directory.path() / "lines");
  file.append("the first");
  {
    const MostBytes most(15);
    expect_error<IoError>([&] { file.append("the second"); }, {"must write all 11 bytes", "got 5"});
    EXPECT_EQ(content(directory.path() / "lines"), "the first\n");
    file.append("abcd");
    expect_error<IoError>([&] { file.append("the second"); }, {"append: cannot write"});
  }
  file.append("the third");
  EXPECT_EQ(content(directory.path() / "lines"), "the first\nabcd\nthe third\n");
}

TEST(Loop, GoesOnWithoutLinesThatFindNoRoomAndCountsThem) {
  const TemporaryDirectory directory;
  Config config;
  config.train.steps = 8;
  RunSummary summary{.config = resolved(config, 1)};
  RankTally tally(1);
  std::string said;
  const testing::LineListener out([&](const std::string& line) { said += line + "\n"; });
  Progress progress({}, 8, out.file());
  const MostBytes most(RLIM_INFINITY);
  ScriptedSteps steps;
  steps.at = [&](StepReport& report) {
    if (report.step == 3) most.set(fs::file_size(directory.path() / "metrics.jsonl") + 20);
    if (report.step == 7) most.lift();
  };
  detail::take_steps(steps, {.directory = directory.path(), .has_held_out = false}, progress, summary, tally);
  EXPECT_EQ(summary.steps, 8);
  const auto lines = lines_of(directory.path() / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 4u);
  for (const std::string& line : lines) EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  EXPECT_EQ(nlohmann::json::parse(lines[2]).at("step"), 7);
  ASSERT_EQ(summary.missing.size(), 1u) << "the curve is shorter, and had room";
  EXPECT_TRUE(summary.missing[0].starts_with("4 lines of metrics.jsonl: ")) << summary.missing[0];
  const std::size_t first = said.find("a line of metrics.jsonl is lost: ");
  ASSERT_NE(first, std::string::npos) << said;
  EXPECT_FALSE(contains(said.substr(first + 1), "a line of metrics.jsonl is lost")) << "told once\n" << said;
  EXPECT_TRUE(contains(said, "metrics.jsonl can be written again; 4 lines are missing\n")) << said;
}

TEST(Loop, ACurveWhoseHeadFoundNoRoomGetsItLater) {
  const TemporaryDirectory directory;
  Config config;
  config.train.steps = 3;
  RunSummary summary{.config = resolved(config, 1)};
  RankTally tally(1);
  Progress progress({}, 3, nullptr);
  const MostBytes most(0);
  ScriptedSteps steps;
  steps.at = [&](StepReport& report) {
    if (report.step == 3) most.lift();
  };
  detail::take_steps(steps, {.directory = directory.path(), .has_held_out = false}, progress, summary, tally);
  EXPECT_EQ(content(directory.path() / "loss.csv"), "step,loss,grad_norm,learning_rate,held_out_loss\n3,7,0.5,0.25,\n");
  EXPECT_EQ(summary.missing.size(), 2u);
}

class RunWithoutRoom : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_text(directory.path());
    config = testing::told_config(directory.path());
    config.run.directory = (directory.path() / "run").string();
    config.checkpoint.directory = (directory.path() / "checkpoints").string();
    block();
  }
  // Makes the creation of the directory fail or succeed.
  void block() const { std::ofstream(config.checkpoint.directory) << "no directory"; }
  void unblock() const { fs::remove_all(config.checkpoint.directory); }
  RunSummary run_and(const std::function<void(const std::string&)>& hear) {
    said.clear();
    const testing::LineListener out([&](const std::string& line) {
      said += line + "\n";
      hear(line);
    });
    return run(config, out.file());
  }
  [[nodiscard]] nlohmann::json told() const {
    return nlohmann::json::parse(content(directory.path() / "run" / "summary.json"), nullptr, false);
  }

  TemporaryDirectory directory;
  Config config;
  std::string said;
};

TEST_F(RunWithoutRoom, ARunWhoseLastCheckpointIsNotThereIsNotDoneAndGoesOn) {
  const RunSummary none = run_and([](const std::string&) {});
  EXPECT_EQ(none.end, RunEnd::kFailed);
  EXPECT_EQ(none.steps, 12);
  EXPECT_TRUE(contains(said, "failed after 12 of 12 steps: the last checkpoint could not be written: ")) << said;
  EXPECT_TRUE(contains(said, "the same command starts from step 0, since no checkpoint exists")) << said;
  EXPECT_EQ(told().at("end"), "failed");

  unblock();
  bool is_blocked = false;
  const RunSummary last = run_and([&](const std::string& line) {
    if (!line.starts_with("step 7/") || std::exchange(is_blocked, true)) return;
    const fs::path written = fs::path(config.checkpoint.directory) / "step-000000006";
    while (!fs::exists(written)) std::this_thread::yield();  // no writer is active there
    fs::rename(config.checkpoint.directory, config.checkpoint.directory + ".aside");
    block();
  });
  EXPECT_EQ(last.end, RunEnd::kFailed);
  unblock();
  fs::rename(config.checkpoint.directory + ".aside", config.checkpoint.directory);
  const RunSummary done = run_and([](const std::string&) {});
  EXPECT_EQ(done.end, RunEnd::kDone) << said;
  EXPECT_EQ(done.resumed_from, std::vector<std::int64_t>{6});
  EXPECT_EQ(told().at("checkpoints").at("last"), 12);
}

TEST_F(RunWithoutRoom, WhatFailedBeforeTheEndIsNotItsLoss) {
  bool is_free = false;
  const RunSummary stopped = run_and([&](const std::string& line) {
    if (line.starts_with("a checkpoint could not be written") && !std::exchange(is_free, true)) unblock();
    if (line.starts_with("step 7/")) ::raise(SIGTERM);  // that of step 2 has been reported by then
  });
  EXPECT_EQ(stopped.end, RunEnd::kInterrupted);
  EXPECT_FALSE(stopped.checkpoint_errors.empty());
  EXPECT_FALSE(stopped.unsaved) << *stopped.unsaved;
  EXPECT_EQ(told().at("checkpoints").at("last"), 7);
}

TEST_F(RunWithoutRoom, ARunThatWasAskedToEndSaysThatItCouldNotBeSaved) {
  const RunSummary stopped = run_and([&](const std::string& line) {
    if (line.starts_with("step 5/")) ::raise(SIGTERM);
  });
  EXPECT_EQ(stopped.end, RunEnd::kInterrupted);
  EXPECT_TRUE(stopped.unsaved.has_value());
  EXPECT_TRUE(contains(told().at("reason"), "the last checkpoint could not be written")) << told().at("reason");
}

TEST_F(RunWithoutRoom, ASummaryThatCannotBeWrittenIsToldAndTheRunReturns) {
  unblock();
  bool is_there = false;
  const RunSummary done = run_and([&](const std::string& line) {
    if (line.starts_with("step 7/") && !std::exchange(is_there, true))
      fs::create_directories(directory.path() / "run" / "summary.json" / "in_its_place");
  });
  EXPECT_EQ(done.end, RunEnd::kDone);
  ASSERT_EQ(done.missing.size(), 1u);
  EXPECT_TRUE(done.missing[0].starts_with("summary.json: ")) << done.missing[0];
  EXPECT_TRUE(contains(said, "the summary of the run could not be written: ")) << said;
}

}  // namespace
}  // namespace tessera::train
