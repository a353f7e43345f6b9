// Tests `tessera explain` from the command line: on a run of the launcher, on records of ranks that differ, and on
// PyTorch pickles.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <nlohmann/json.hpp>

#include "tessera/analysis/testing/evidence_builder.h"
#include "tessera/analysis/torch_pickles.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/cli/testing/run_program.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/work.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"

namespace tessera {
namespace {

using analysis::testing::all_reduce;
using analysis::testing::EvidenceBuilder;
using cli::testing::contains;
using cli::testing::Outcome;
using nlohmann::json;

class Explain : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tessera_explain_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  [[nodiscard]] Outcome run(const std::string& options = "") const {
    return cli::testing::tessera("explain " + directory + " " + options);
  }
  // Writes pickles of four ranks; rank 2 is in its data loader.
  void write_stuck() const {
    EvidenceBuilder made(4);
    made.add_group("left", {0, 1});
    made.everyone(all_reduce(64), 6);
    made.everyone(all_reduce(5), 2, "left");
    for (const int rank : {0, 1, 3}) made.launch(rank, all_reduce(1024), analysis::Stage::kBegun);
    made.pass(31);
    analysis::write_torch_pickles(made.evidence(), directory);
  }

  std::string directory;
};

TEST_F(Explain, NamesTheRankThatFailedFirstInARunOfTheLauncher) {
  const Outcome ran = cli::testing::tessera("run --run-dir " + directory +
                                            " -n 2 -- sh -c 'test $RANK = 0 || exit 42; exec sleep 1000'");
  ASSERT_EQ(ran.code, 42) << ran.err;
  const Outcome outcome = run();
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "\nverdict: rank 1 failed: exited with 42, and left no record\n")) << outcome.out;
}

// Not a test, but the program of each rank in the next test. Rank 1 hangs before the second collective and ignores
// SIGTERM.
TEST_F(Explain, DISABLED_BeARankThatMayHang) {
  tessera::init();
  const device::Stream stream = device::Device::get("host").create_stream();
  float x = 1;
  comm::world().all_reduce(&x, &x, 1, DType::kF32, {}, stream).wait();
  if (comm::world().rank() == 1) {
    ::signal(SIGTERM, SIG_IGN);
    for (;;) ::pause();
  }
  comm::world().set_deadline(std::chrono::seconds(1));
  comm::world().all_reduce(&x, &x, 1, DType::kF32, {}, stream).wait();
}

TEST_F(Explain, GivesTheLiveVerdictAfterTheLauncherKilledTheHungRank) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const Outcome ran = cli::testing::tessera("run --run-dir " + directory + " -n 2 -- " + program +
                                                " --gtest_filter=Explain.DISABLED_BeARankThatMayHang "
                                                "--gtest_also_run_disabled_tests",
                                            "TESSERA_RECORD_BYTES=1MiB");
  EXPECT_EQ(ran.code, 1) << ran.err;
  EXPECT_TRUE(contains(ran.err, "rank 1 did not exit within ")) << ran.err;
  const json live = json::parse(cli::testing::content(directory + "/explain.json"));
  EXPECT_EQ(live.at("verdict").at("culprits"), json({1})) << live.at("verdict");
  const Outcome outcome = run("--json");
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  const json after = json::parse(outcome.out);
  for (const char* part : {"fault", "culprits", "group", "collective_number"})
    EXPECT_EQ(after.at("verdict").at(part), live.at("verdict").at(part)) << part << ": " << after.at("verdict");
}

TEST_F(Explain, SaysThatNothingIsWrongWithARunThatEndedInOrder) {
  simulate(2, [&] {
    const device::Stream stream = device::Device::get("host").create_stream();
    float x = 1;
    comm::world().all_reduce(&x, &x, 1, DType::kF32, {}, stream).wait();
    const std::string name = "/rank-" + std::to_string(comm::world().rank()) + ".node.1.a.record";
    std::filesystem::copy_file(probe::recorder().path(), directory + name);
  });
  const Outcome outcome = run();
  EXPECT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "\nverdict: no fault")) << outcome.out;
}

TEST_F(Explain, BlamesTheRankWhoseRecordDiffersFromMost) {
  const auto work = [&] {
    const device::Stream stream = device::Device::get("host").create_stream();
    const int rank = comm::world().rank();
    float x[8] = {};
    comm::world().all_reduce(x, x, 8, DType::kF32, {}, stream).wait();
    EXPECT_THROW(comm::world().all_reduce(x, x, rank == 0 ? 4 : 8, DType::kF32, {}, stream).wait(), MismatchError);
    const std::string name = "/rank-" + std::to_string(rank) + ".node.1.a.record";
    std::filesystem::copy_file(probe::recorder().path(), directory + name);
  };
  EXPECT_THROW(simulate(3, work), MismatchError);  // the destructor of a stream rethrows its failure
  const Outcome outcome = run();
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_TRUE(contains(outcome.out,
                       "\nverdict: rank 0 enqueued all_reduce(f32[4], sum) as collective 2 of group world, but ranks 1 "
                       "and 2 enqueued all_reduce(f32[8], sum)\n"))
      << outcome.out;
}

TEST_F(Explain, ReadsPicklesOfPyTorch) {
  write_stuck();
  const Outcome outcome = run();
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "\nverdict: rank 2 did not reach collective 7 of group world")) << outcome.out;
}

TEST_F(Explain, PrintsJsonOfTheRanksAndTheGroupAskedFor) {
  write_stuck();
  const Outcome outcome = run("--json --ranks 0,2-3 --group left --last 1");
  ASSERT_EQ(outcome.code, 3) << outcome.err;
  const json shown = json::parse(outcome.out);
  EXPECT_EQ(shown["verdict"]["culprits"], json({2}));
  ASSERT_EQ(shown["ranks"].size(), 3U);
  EXPECT_EQ(shown["ranks"][1]["rank"], 2);
  ASSERT_EQ(shown["ranks"][0]["groups"].size(), 1U);
  EXPECT_EQ(shown["ranks"][0]["groups"][0]["name"], "left");
  EXPECT_EQ(shown["ranks"][0]["groups"][0]["launches"].size(), 1U);
}

TEST_F(Explain, HasColorsWhenAskedFor) {
  write_stuck();
  EXPECT_FALSE(contains(run().out, "\033"));
  EXPECT_TRUE(contains(run("--color always").out, "\033[1;31mverdict: "));
  EXPECT_FALSE(contains(run("--color never").out, "\033"));
}

TEST_F(Explain, WhatCannotBeReadIsAnErrorInOneLine) {
  for (const std::string place : {"/missing", ""}) {
    const Outcome outcome = cli::testing::tessera("explain " + directory + place);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(contains(outcome.err, directory + place)) << outcome.err;
    EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
  }
}

TEST_F(Explain, AListOfRanksThatIsNoneIsRefused) {
  write_stuck();
  for (const std::string ranks : {"x", "3-1", "0,-2", "1,,2", "99999999999"}) {
    EXPECT_EQ(run("--ranks " + ranks).code, 2) << ranks;
  }
  EXPECT_EQ(run("--color loud").code, 2);
}

TEST_F(Explain, HelpTellsTheExitCodes) {
  const Outcome outcome = cli::testing::tessera("explain --help");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(contains(outcome.out, "3 a fault was found")) << outcome.out;
}

TEST_F(Explain, RanksAndGroupsThatTheRunDoesNotHaveAreErrors) {
  write_stuck();
  Outcome outcome = run("--ranks 1,9");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "tessera: explain: --ranks: must be in [0, 4), got 9\n");
  EXPECT_EQ(outcome.out, "");
  outcome = run("--group nope");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "tessera: explain: --group: unknown group 'nope'; groups: left, world\n");
  EXPECT_EQ(run("--group left --ranks 0-3").code, 3);
}

TEST_F(Explain, ReadsTheNewestRunUnderRunsIfNoneIsNamed) {
  const std::string there = "cd " + directory + " && ";
  Outcome outcome = cli::testing::tessera("explain", there);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(contains(outcome.err, "RUN_DIR: required")) << outcome.err;
  for (const char* name : {"first", "second"}) {
    ASSERT_EQ(cli::testing::tessera(std::string("run --run-dir runs/") + name + " -n 1 -- true", there).code, 0);
    std::filesystem::last_write_time(
        directory + "/runs/" + name + "/launch.json",
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(*name == 'f' ? 1 : 2));
  }
  outcome = cli::testing::tessera("explain", there);
  EXPECT_TRUE(contains(outcome.err, "tessera: RUN_DIR: runs/first, the newest run under ./runs")) << outcome.err;
  for (const char* verb : {"watch --once", "view --out page.html"}) {
    outcome = cli::testing::tessera(verb, there);
    EXPECT_TRUE(contains(outcome.err, "runs/first")) << verb << ": " << outcome.err;
  }
}

}  // namespace
}  // namespace tessera
