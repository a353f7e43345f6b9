// Runs of rank processes that are killed and restarted at any time: the final files are bitwise equal to those of a run
// that was never killed.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <random>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/comm/testing/rank_processes.h"
#include "tessera/train/detail/run_directory.h"
#include "tessera/train/detail/run_signals.h"
#include "tessera/train/run.h"
#include "tessera/train/testing/scripted_steps.h"
#include "tessera/train/testing/told_run.h"

namespace tessera::train {
namespace {

using testing::content;
using testing::LineListener;
using testing::TemporaryDirectory;

// Kills this process after so many microseconds.
void kill_in(std::int64_t microseconds) {
  sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer = {};
  ASSERT_EQ(::timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  itimerspec when = {};
  when.it_value = {.tv_sec = microseconds / 1'000'000, .tv_nsec = microseconds % 1'000'000 * 1000 + 1};
  ASSERT_EQ(::timer_settime(timer, 0, &when, nullptr), 0);
}

class Resume : public ::testing::Test {
 protected:
  void SetUp() override { testing::write_text(directory.path()); }

  [[nodiscard]] Config config(const char* name) const {
    Config config = testing::told_config(directory.path());
    config.run.directory = (directory.path() / name).string();
    config.mesh.fsdp = 2;
    return config;
  }
  [[nodiscard]] nlohmann::json summary(const char* name) const {
    return nlohmann::json::parse(content(directory.path() / name / "summary.json"), nullptr, false);
  }

  TemporaryDirectory directory;
};

void expect_all_ended(const std::vector<comm::ProcessEnd>& ends) {
  for (const comm::ProcessEnd& end : ends) EXPECT_EQ(end.exit_code, 0) << "signal " << end.signal;
}

// Completes one run, and kills the other `kills` times, at moments spread over the duration of the first.
void kill_often(const Config& whole, const Config& killed, int kills, std::uint64_t seed) {
  const auto began = std::chrono::steady_clock::now();
  expect_all_ended(comm::run_rank_processes(2, [&](int) { (void)run(whole, nullptr); }));
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
  const auto want = testing::left_by(whole.run.directory);
  std::mt19937_64 random(seed);
  int killed_so_far = 0;
  int resumed = 0;
  for (int round = 0; killed_so_far < kills; ++round) {
    ASSERT_LT(round, 20 * kills) << "runs end before they are killed";
    const double when = took.count() * static_cast<double>(random() % 1000) / 1000;
    const int victim = static_cast<int>(random() % 3);  // 2: all
    const auto ends = comm::run_rank_processes(2, [&](int rank) {
      // The other may wait for a rank that never arrived; its launcher would kill it too.
      constexpr double kLater = 500'000;
      kill_in(static_cast<std::int64_t>(victim == 2 || victim == rank ? when : when + kLater));
      (void)run(killed, nullptr);
    });
    const bool was_killed = ends[0].signal == SIGKILL || ends[1].signal == SIGKILL;
    killed_so_far += was_killed ? 1 : 0;
    resumed += was_killed && !testing::left_by(killed.run.directory)["step"].empty() ? 1 : 0;
    if (was_killed) continue;
    // It is complete: compare it with the other, and begin again.
    ASSERT_EQ(testing::difference(testing::left_by(killed.run.directory), want), "")
        << "seed " << seed << " round " << round;
    ASSERT_EQ(testing::wrong_lines(killed.run.directory, killed.train.steps, 2), "") << "seed " << seed;
    std::filesystem::remove_all(killed.run.directory);
  }
  // The last kill may have come after everything was written.
  const std::string told = content(std::filesystem::path(killed.run.directory) / "summary.json");
  if (told.find("\"end\": \"done\"") == std::string::npos)
    expect_all_ended(comm::run_rank_processes(2, [&](int) { (void)run(killed, nullptr); }));
  EXPECT_EQ(testing::difference(testing::left_by(killed.run.directory), want), "") << "seed " << seed;
  EXPECT_EQ(testing::wrong_lines(killed.run.directory, killed.train.steps, 2), "") << "seed " << seed;
  EXPECT_GT(resumed, 0) << "no kill left a checkpoint to go on from";
}

TEST_F(Resume, TwentyKillsLeaveTheSameBits) { kill_often(config("whole"), config("killed"), 20, 1); }

// For campaigns: a different seed each time, printed at a failure.
TEST_F(Resume, DISABLED_TwoHundredKillsLeaveTheSameBits) {
  kill_often(config("whole"), config("killed"), 200, std::random_device()());
}

TEST_F(Resume, ATermOfOneRankEndsAllWithACheckpointAndTheSameCommandGoesOn) {
  expect_all_ended(comm::run_rank_processes(2, [&](int) { (void)run(config("whole"), nullptr); }));
  const Config stopped = config("stopped");
  expect_all_ended(comm::run_rank_processes(2, [&](int) {
    const LineListener out([](const std::string& line) {
      if (line.starts_with("step 5/")) ::raise(SIGTERM);  // only rank 0 prints
    });
    EXPECT_EQ(run(stopped, out.file()).end, RunEnd::kInterrupted);
  }));
  const nlohmann::json told = summary("stopped");
  EXPECT_EQ(told.at("end"), "interrupted");
  EXPECT_EQ(told.at("steps"), 6) << "all learn of it one step later";
  EXPECT_EQ(told.at("checkpoints").at("last"), 6);
  std::vector<std::string> lines;
  expect_all_ended(comm::run_rank_processes(2, [&](int rank) {
    const LineListener out([&](const std::string& line) { lines.push_back(line); });
    const RunSummary done = run(stopped, out.file());
    EXPECT_EQ(done.end, RunEnd::kDone);
    EXPECT_EQ(done.resumed_from, std::vector<std::int64_t>{6});
    EXPECT_TRUE(rank != 0 || lines.at(0).starts_with("resuming after step 6 from ")) << lines.at(0);
  }));
  EXPECT_EQ(testing::difference(testing::left_by(stopped.run.directory), testing::left_by(directory.path() / "whole")),
            "");
  EXPECT_EQ(testing::wrong_lines(stopped.run.directory, 12, 2), "");
  EXPECT_EQ(summary("stopped").at("tokens"), summary("whole").at("tokens"));
  EXPECT_EQ(summary("stopped").at("loss"), summary("whole").at("loss"));
  EXPECT_EQ(summary("stopped").at("held_out"), summary("whole").at("held_out"));
}

// Rank 0, the only one that prints, is requested to end at the line of this step; rank 1 learns of it in the evaluation
// after the next step.
void end_at(const Config& config, const std::string& line) {
  expect_all_ended(comm::run_rank_processes(2, [&](int) {
    const LineListener out([&](const std::string& told) {
      if (told.starts_with(line)) ::raise(SIGTERM);
    });
    EXPECT_EQ(run(config, out.file()).end, RunEnd::kInterrupted);
  }));
}

TEST_F(Resume, ATermOfOneRankEndsAnEvaluationOnAllAndTheSameCommandEvaluatesAgain) {
  Config whole = config("whole");
  whole.eval.samples = 20;  // 5 batches
  Config stopped = whole;
  stopped.run.directory = (directory.path() / "stopped").string();
  expect_all_ended(comm::run_rank_processes(2, [&](int) { (void)run(whole, nullptr); }));
  end_at(stopped, "step 4/");
  EXPECT_EQ(summary("stopped").at("end"), "interrupted");
  EXPECT_EQ(summary("stopped").at("steps"), 5);
  EXPECT_EQ(summary("stopped").at("checkpoints").at("last"), 5);
  EXPECT_TRUE(summary("stopped").at("held_out").is_null()) << "the loss of a part is none";
  end_at(stopped, "step 11/");
  EXPECT_EQ(summary("stopped").at("end"), "interrupted");
  EXPECT_EQ(summary("stopped").at("steps"), 12);
  EXPECT_EQ(summary("stopped").at("reason"),
            "stop requested during the held-out evaluation; run the same command to evaluate again");
  EXPECT_EQ(summary("stopped").at("checkpoints").at("last"), 12);
  EXPECT_EQ(summary("stopped").at("held_out").at("evaluations").size(), 2u) << "of steps 5 and 10";
  expect_all_ended(comm::run_rank_processes(2, [&](int) { EXPECT_EQ(run(stopped, nullptr).end, RunEnd::kDone); }));
  EXPECT_EQ(summary("stopped").at("held_out"), summary("whole").at("held_out"));
  EXPECT_EQ(testing::difference(testing::left_by(stopped.run.directory), testing::left_by(whole.run.directory)), "");
}

TEST_F(Resume, ATermOfOneRankBeforeTheFirstStepEndsAllAndChangesNothing) {
  for (const int asked : {0, 1}) {
    expect_all_ended(comm::run_rank_processes(2, [&](int rank) {
      const detail::RunSignals signals;
      if (rank == asked) ::raise(SIGTERM);
      const RunSummary summary = run(config("run"), nullptr);
      EXPECT_EQ(summary.end, RunEnd::kInterrupted);
      EXPECT_EQ(summary.reason, "stop requested before the first step; run the same command to start again");
    }));
    EXPECT_FALSE(std::filesystem::exists(directory.path() / "run" / "config.toml"));
  }
}

TEST_F(Resume, ATermOfOneRankEndsTheSampleOfARunThatIsDone) {
  Config config = this->config("run");
  config.run.sample = 100'000;
  std::vector<std::string> lines;
  expect_all_ended(comm::run_rank_processes(2, [&](int rank) {
    const LineListener out([&](const std::string& line) {
      lines.push_back(line);
      if (line.starts_with("12 steps, ")) ::raise(SIGTERM);
    });
    EXPECT_EQ(run(config, out.file()).end, RunEnd::kDone);
    EXPECT_TRUE(rank != 0 || lines.back() == "sample: stop requested after 1 of 100000 tokens") << lines.back();
  }));
  EXPECT_EQ(summary("run").at("end"), "done");
}

// The checkpoint of step 8 was being written when the rank died in step 9; that of step 6 was complete before that
// began.
bool is_six_or_eight(const std::vector<std::int64_t>& steps) {
  return steps == std::vector<std::int64_t>{6} || steps == std::vector<std::int64_t>{8};
}

double loss_of(const std::string& line) { return std::stod(line.substr(line.find(',') + 1)); }

TEST_F(Resume, ThoseThatAreLeftGoOnAsASmallerWorld) {
  Config whole = config("whole");
  whole.mesh.fsdp = 1;
  whole.model.dropout = 0;
  Config shrunk = whole;
  shrunk.run.directory = (directory.path() / "shrunk").string();
  shrunk.run.on_failure = "shrink";
  const auto ends = comm::run_rank_processes(4, [&](int rank) {
    std::vector<std::string> lines;
    const LineListener out([&](const std::string& line) {
      if (rank == 0 && line.starts_with("step 9/")) ::raise(SIGKILL);
      lines.push_back(line);
    });
    const RunSummary summary = run(shrunk, out.file());
    // Three survive, and two of them can share a batch of four.
    EXPECT_EQ(summary.end, rank == 3 ? RunEnd::kInterrupted : RunEnd::kDone) << summary.reason;
    EXPECT_EQ(summary.world_size, rank == 3 ? 1 : 2);
    if (rank != 1) return;
    EXPECT_NE(lines.at(0).find("rank 0 died"), std::string::npos) << lines.at(0);
    EXPECT_EQ(lines.at(1), "continuing with 2 of 4 ranks, dp 2 x fsdp 1 x tp 1; 1 more is unused");
    // A checkpoint that was being written is skipped first, with a warning.
    EXPECT_TRUE(std::ranges::any_of(
        lines, [](const std::string& line) { return line.find("resuming after step ") != std::string::npos; }));
    EXPECT_TRUE(std::ranges::none_of(lines, [](const std::string& line) {
      return line.find(" free on host") != std::string::npos;
    })) << "the first world has told the start";
  });
  EXPECT_EQ(ends[0].signal, SIGKILL);
  for (int rank = 1; rank < 4; ++rank) EXPECT_EQ(ends[static_cast<std::size_t>(rank)].exit_code, 0) << rank;
  expect_all_ended(comm::run_rank_processes(4, [&](int) { (void)run(whole, nullptr); }));
  const auto got = testing::lines_of(directory.path() / "shrunk" / "loss.csv");
  const auto want = testing::lines_of(directory.path() / "whole" / "loss.csv");
  ASSERT_EQ(got.size(), 13u);
  for (std::size_t i = 1; i < got.size(); ++i) EXPECT_NEAR(loss_of(got[i]), loss_of(want[i]), 1e-5) << i;
  EXPECT_EQ(summary("shrunk").at("world_size"), 2);
  EXPECT_TRUE(is_six_or_eight(summary("shrunk").at("resumed_from"))) << summary("shrunk");
}

TEST_F(Resume, RanksThatWaitInOtherGroupsHearOfIt) {
  Config config = this->config("run");
  config.mesh = {.dp = 2, .fsdp = 1, .tp = 2};
  config.train.steps = 60;
  config.run.on_failure = "shrink";
  // Rank 3 has no group with rank 0 but that of all ranks.
  const auto ends = comm::run_rank_processes(4, [&](int rank) {
    const LineListener out([&](const std::string& line) {
      if (rank == 0 && line.starts_with("step 9/")) kill_in(1000);  // usually within a step
    });
    const RunSummary summary = run(config, out.file());
    EXPECT_EQ(summary.end, rank == 3 ? RunEnd::kInterrupted : RunEnd::kDone) << summary.reason;
    EXPECT_EQ(summary.config.mesh.tp, 2);
  });
  EXPECT_EQ(ends[0].signal, SIGKILL);
  for (int rank = 1; rank < 4; ++rank) EXPECT_EQ(ends[static_cast<std::size_t>(rank)].exit_code, 0) << rank;
  EXPECT_EQ(summary("run").at("mesh"), nlohmann::json({{"dp", 1}, {"fsdp", 1}, {"tp", 2}}));
}

TEST_F(Resume, ASecondRankThatDiesShrinksTheWorldAgain) {
  Config shrunk = config("run");
  shrunk.mesh.fsdp = 1;
  shrunk.run.on_failure = "shrink";
  const auto ends = comm::run_rank_processes(4, [&](int rank) {
    std::vector<std::string> said;
    const LineListener out([&](const std::string& line) {
      // In the shrunk world, rank 1 is the first.
      if (rank == 0 && line.starts_with("step 5/")) ::raise(SIGKILL);
      if (rank == 1 && line.starts_with("step 9/")) ::raise(SIGKILL);
      said.push_back(line);
    });
    const RunSummary summary = run(shrunk, out.file());
    EXPECT_EQ(summary.end, rank == 3 ? RunEnd::kInterrupted : RunEnd::kDone) << summary.reason;
    if (rank != 2) return;
    EXPECT_EQ(summary.world_size, 1);
    EXPECT_NE(said.at(0).find("rank 0 died"), std::string::npos) << said.at(0);
    EXPECT_EQ(said.at(1), "continuing with 1 of 2 ranks, dp 1 x fsdp 1 x tp 1");
  });
  EXPECT_EQ(ends[0].signal, SIGKILL);
  EXPECT_EQ(ends[1].signal, SIGKILL);
  EXPECT_EQ(ends[2].exit_code, 0);
  EXPECT_EQ(ends[3].exit_code, 0);
  EXPECT_EQ(summary("run").at("end"), "done");
  EXPECT_EQ(summary("run").at("world_size"), 1);
  EXPECT_EQ(testing::lines_of(directory.path() / "run" / "loss.csv").size(), 13u) << "each step is reported once";
}

// Once one rank has ended, the others have little time, so none of them waits for it.
TEST_F(Resume, ARunThatLosesItsFirstRankAtTheEndSaysSoAtOnce) {
  const auto expect_lost = [](const std::function<void()>& waits, const char* when) {
    try {
      waits();
      ADD_FAILURE() << "nobody was missed";
    } catch (const AbortedError& error) {
      for (const char* part : {"a rank was lost", when, "rank 0 died", "run the same command to resume"})
        EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
  };
  const auto dies_before = [&](const std::function<void(const detail::RunRanks&)>& waits) {
    const auto ends = comm::run_rank_processes(2, [&](int rank) {
      (void)detail::RunRanks().collect({.rank = rank});  // both exist
      const detail::RunRanks ranks;
      if (rank == 0) ::raise(SIGKILL);
      waits(ranks);
    });
    EXPECT_EQ(ends[0].signal, SIGKILL);
    EXPECT_EQ(ends[1].exit_code, 0) << "signal " << ends[1].signal;
  };
  dies_before([&](const detail::RunRanks& ranks) {
    expect_lost([&] { (void)ranks.open_directory(config("run"), {}); }, "before the run began");
  });
  dies_before([&](const detail::RunRanks& ranks) {
    expect_lost([&] { (void)ranks.collect({.rank = 1}); }, "before the summary was written");
  });
  dies_before(
      [&](const detail::RunRanks& ranks) { expect_lost([&] { ranks.finish(); }, "before the summary was written"); });
}

TEST_F(Resume, ARunThatLosesARankWhenAllIsWrittenIsDone) {
  const Config config = this->config("run");
  const auto ends = comm::run_rank_processes(2, [&](int rank) {
    const LineListener out([&](const std::string& line) {
      if (rank == 0 && line.starts_with("12 steps, ")) ::raise(SIGKILL);
    });
    EXPECT_EQ(run(config, out.file()).end, RunEnd::kDone);
  });
  EXPECT_EQ(ends[0].signal, SIGKILL);
  EXPECT_EQ(ends[1].exit_code, 0) << "signal " << ends[1].signal;
  EXPECT_EQ(summary("run").at("end"), "done");
}

TEST_F(Resume, WhatIsCutOverTensorRanksCannotGoOnWithoutOne) {
  Config config = this->config("run");
  config.mesh.fsdp = 1;
  config.mesh.tp = 2;
  config.run.on_failure = "shrink";
  const auto ends = comm::run_rank_processes(2, [&](int rank) {
    const LineListener out([&](const std::string& line) {
      if (rank == 0 && line.starts_with("step 9/")) ::raise(SIGKILL);
    });
    try {
      (void)run(config, out.file());
      ADD_FAILURE() << "it went on";
    } catch (const AbortedError& error) {
      for (const char* part : {"1 of 2 ranks survive", "they must keep mesh.tp 2", "start again"})
        EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
  });
  EXPECT_EQ(ends[0].signal, SIGKILL);
  EXPECT_EQ(ends[1].exit_code, 0);
  expect_all_ended(comm::run_rank_processes(2, [&](int) {
    const std::vector<std::int64_t> resumed = run(config, nullptr).resumed_from;
    EXPECT_TRUE(resumed == std::vector<std::int64_t>{6} || resumed == std::vector<std::int64_t>{8});
  }));
}

}  // namespace
}  // namespace tessera::train
