// Tests `tessera train` in the directory of a run that is active, ended or ending: a rejected start changes nothing,
// and a finished run has nothing to do. Also tests the start and end of a run.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <nlohmann/json.hpp>

#include "tessera/cli/testing/train_directory.h"

namespace tessera::cli::testing {
namespace {

namespace fs = std::filesystem;

class TrainAgain : public TrainDirectory {
 protected:
  // Returns every file of the run by path.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(directory + "/run")) {
      if (entry.is_regular_file()) all[entry.path().string()] = content(entry.path().string());
    }
    return all;
  }

  // A model that trains quickly.
  const std::string small =
      "-n 2 --model.width 32 --model.layers 1 --model.hidden 32 --model.sequence 16 --data.files text --eval.every 0 "
      "--eval.samples 8 --run.directory run ";
};

std::string pid_of_rank(int rank) {
  return "$(tr -d ' \\n' <run/launch.json | sed 's/.*\"rank\":" + std::to_string(rank) +
         ",\"pid\":\\([0-9]*\\).*/\\1/')";
}

TEST_F(TrainAgain, WhatIsRefusedLeavesAFinishedRunAsItWas) {
  for (const std::string& ranks : {std::string("-n 2 "), std::string()}) {
    SCOPED_TRACE(ranks.empty() ? "one rank that nobody started" : "ranks that are started");
    const std::string start = ranks + small.substr(std::string("-n 2 ").size()) + "--train.steps 4";
    ASSERT_EQ(train(start).code, 0);
    const auto before = files();
    const Outcome other = train(start + " --train.seed 2");
    EXPECT_EQ(other.code, 1);
    EXPECT_TRUE(contains(other.err, "already contains a finished run")) << other.err;
    EXPECT_TRUE(contains(other.err, "train.seed is 2 here, and was 1")) << other.err;
    EXPECT_TRUE(files() == before);
    const Outcome same = train(start);
    EXPECT_EQ(same.code, 0) << same.err;
    EXPECT_EQ(same.out, "the run in " + directory + "/run is already finished with these options; nothing to do\n");
    EXPECT_TRUE(files() == before);
    fs::remove_all(directory + "/run");
  }
}

TEST_F(TrainAgain, OtherDataLeaveARunAsItWas) {
  const Outcome stopped =
      script("$tessera train " + small +
             "--train.steps 100000 &\njob=$!\nuntil_test grep -qs '\"step\":20,' run/metrics.jsonl\n"
             "kill $job\nwait $job\n");
  ASSERT_EQ(stopped.code, 0) << stopped.err;
  const auto before = files();
  const Outcome other = train(small + "--train.steps 100000 --data.files other");
  EXPECT_EQ(other.code, 1);
  EXPECT_TRUE(contains(other.err, "the data differ")) << other.err;
  EXPECT_TRUE(files() == before);
}

TEST_F(TrainAgain, ASecondStartLeavesARunThatGoesOnAlone) {
  const Outcome outcome =
      script("$tessera train " + small +
             "--train.steps 100000 &\njob=$!\nuntil_test grep -qs '\"step\":20,' run/metrics.jsonl\n"
             "cp run/launch.json launched\n$tessera train " +
             small +
             "--train.steps 100000 2>refused; echo $? >codes\n"
             "$tessera run -n 1 --run-dir run -- true 2>>refused; echo $? >>codes\n"
             "cmp run/launch.json launched || exit 98\nls run >files\n"
             "$tessera explain run >verdict 2>&1\nkill $job\nwait $job\n");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(content(directory + "/codes"), "1\n1\n");
  const std::string refused = content(directory + "/refused");
  EXPECT_TRUE(contains(refused, "is in use by an active run")) << refused;
  EXPECT_TRUE(contains(refused, "specify another with --run.directory\n")) << refused;
  EXPECT_TRUE(contains(refused, "specify another with --run-dir\n")) << refused;
  for (const char* file : {"explain", "report.html"})
    EXPECT_FALSE(contains(content(directory + "/files"), file)) << content(directory + "/files");
  EXPECT_FALSE(contains(content(directory + "/verdict"), "failed")) << content(directory + "/verdict");
}

// The summary shows done while rank 0 still prints a sample.
TEST_F(TrainAgain, AJobThatIsLostInItsLastMomentsIsNotAFailureWhenStartedAgain) {
  std::string options = small + "--train.steps 4 --run.sample 100000";
  options.erase(0, 5);
  const Outcome outcome = script("$tessera run -n 2 --restarts 2 --run-dir run -- $tessera train " + options +
                                 " &\njob=$!\nuntil_test grep -qs '\"end\": \"done\"' run/summary.json\nkill -9 " +
                                 pid_of_rank(0) + "\nwait $job\n");
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "(restart 1 of 2)")) << outcome.err;
  EXPECT_FALSE(contains(outcome.err, "(restart 2 of 2)")) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "is already finished")) << outcome.out;
  EXPECT_TRUE(fs::exists(directory + "/run/report.html")) << "which the first start could not leave";
}

TEST_F(TrainAgain, AShrinkThatIsRefusedLeavesASummary) {
  const Outcome outcome =
      script("$tessera train --on-failure shrink --mesh.tp 2 " + small +
             "--train.steps 100000 &\njob=$!\nuntil_test grep -qs '\"step\":20,' run/metrics.jsonl\n"
             "kill -9 " +
             pid_of_rank(1) + "\nwait $job\n");
  EXPECT_EQ(outcome.code, 1) << outcome.out << outcome.err;
  ASSERT_TRUE(summary().is_object());
  EXPECT_EQ(summary().at("end"), "failed");
  EXPECT_TRUE(contains(summary().at("reason"), "1 of 2 ranks survive and cannot continue")) << summary().at("reason");
}

TEST_F(TrainAgain, ARunDirectoryMayHaveANameThatIsNoUtf8) {
  for (const char* ranks : {"", "-n 2 "}) {
    std::string options = small;
    options.replace(0, 5, ranks);
    const Outcome outcome =
        script("name=$(printf 'run\\377%s' " + std::to_string(options.size()) + ")\n$tessera train " + options +
               "--train.steps 3 --run.directory \"$name\" || exit 1\n"
               "mv \"$name\" run\n");
    EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
    EXPECT_FALSE(contains(outcome.err, "json")) << outcome.err;
    ASSERT_TRUE(summary().is_object());
    EXPECT_EQ(summary().at("end"), "done");
    EXPECT_EQ(summary().at("checkpoints").at("last"), 3);
    EXPECT_TRUE(fs::exists(directory + "/run/report.html"));
    fs::remove_all(directory + "/run");
  }
}

TEST_F(TrainAgain, AProfileMayBeAskedForBeforeTheRunListens) {
  const Outcome outcome = script("$tessera train " + small +
                                 "--train.steps 2000 &\njob=$!\nuntil_test test -s run/launch.json\n"
                                 "kill -USR1 $job\nwait $job\n");
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "profile of steps ")) << "it was kept\n" << outcome.out;
}

TEST_F(TrainAgain, ADirectoryThatCannotBeMadeNamesTheOptionOfTrain) {
  std::ofstream(directory + "/file") << "no directory";
  const Outcome outcome = train(small + "--train.steps 3 --run.directory file/run");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(contains(outcome.err, "choose another directory with --run.directory\n")) << outcome.err;
}

}  // namespace
}  // namespace tessera::cli::testing
