// The values of a page compared with their files: complete, truncated, corrupt, missing and of long runs.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tessera/analysis/report/detail/run_json.h"
#include "tessera/analysis/report/testing/made_run.h"

namespace tessera::analysis {
namespace {

namespace fs = std::filesystem;
using detail::PageJson;
using detail::RunTables;

class RunJson : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "run_json_XXXXXX";
    directory = ::mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(directory); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(directory + "/" + name) << text; }
  void append(const std::string& name, const std::string& text) const {
    std::ofstream(directory + "/" + name, std::ios::app) << text;
  }
  void make(testing::MadeRun run = {}) const {
    run.has_records = false;
    testing::make_run(directory, run);
  }
  [[nodiscard]] RunTables read() const { return detail::read_run_tables(directory); }
  static std::string missing_of(const RunTables& tables) {
    std::string text;
    for (const auto& part : tables.missing) text += part.what + ";";
    return text;
  }

  std::string directory;
};

TEST_F(RunJson, CurvesHaveTheNumbersOfTheFiles) {
  make();
  const PageJson curves = detail::curves_json(read());
  const PageJson& loss = curves["loss"];
  ASSERT_EQ(loss["step"].size(), 40U);
  EXPECT_EQ(loss["stride"], 1);
  for (int step = 1; step <= 40; ++step) {
    const auto at = static_cast<std::size_t>(step - 1);
    EXPECT_EQ(loss["step"][at], step);
    EXPECT_EQ(loss["loss"][at].get<double>(), testing::made_loss(step));
    EXPECT_EQ(loss["grad_norm"][at].get<double>(), 2.0 / step);
    EXPECT_EQ(loss["learning_rate"][at], 0.001);
    // As slow as the slowest rank, rank 3.
    EXPECT_DOUBLE_EQ(curves["speed"]["tokens_per_second"][at].get<double>(), 1024 / 0.053);
    EXPECT_DOUBLE_EQ(curves["speed"]["exposed_share"][at].get<double>(), 0.04 / 0.206);
  }
  ASSERT_EQ(curves["held_out"].size(), 4U);
  EXPECT_EQ(curves["held_out"][1]["step"], 20);
  EXPECT_EQ(curves["held_out"][1]["loss"].get<double>(), testing::made_loss(20) + 0.25);
  EXPECT_EQ(curves["bigram_entropy"], 2.4759);
}

TEST_F(RunJson, MemoryHasTheOwnersOfTheFilesAndNoTotalAmongThem) {
  make();
  const PageJson memory = detail::memory_json(read());
  EXPECT_EQ(memory["owners"], (PageJson{"parameters", "gradients", "optimizer", "activations"}));
  ASSERT_EQ(memory["ranks"].size(), 4U);
  const PageJson& rank = memory["ranks"][2];
  EXPECT_EQ(rank["rank"], 2);
  EXPECT_EQ(rank["step"].size(), 40U);
  EXPECT_EQ(rank["nbytes"][0][7], 800'000);
  EXPECT_EQ(rank["nbytes"][3][7], 8000);
  ASSERT_EQ(memory["peaks"].size(), 4U);
  EXPECT_EQ(memory["peaks"][3]["measured"]["activations"], testing::made_activations(3));
  EXPECT_EQ(memory["peaks"][3]["predicted"]["activations"], testing::made_activations(3) + 50'000);
  EXPECT_EQ(memory["peaks"][3]["measured"]["total"], 3'100'000 + testing::made_activations(3));
}

TEST_F(RunJson, TheMeshPutsRanksWhereThePlanDid) {
  make({.ranks = 8});
  const PageJson mesh = detail::mesh_json(read(), nullptr);
  EXPECT_EQ(mesh["axes"], (PageJson{{"dp", 2}, {"fsdp", 2}, {"tp", 2}}));
  ASSERT_EQ(mesh["ranks"].size(), 8U);
  EXPECT_EQ(mesh["ranks"][5]["place"], (PageJson{{"dp", 1}, {"fsdp", 0}, {"tp", 1}}));
  EXPECT_EQ(mesh["ranks"][6]["place"], (PageJson{{"dp", 1}, {"fsdp", 1}, {"tp", 0}}));
  EXPECT_EQ(mesh["ranks"][6]["owners"]["activations"], testing::made_activations(6));
}

TEST_F(RunJson, AMeshThatDoesNotHoldItsRanksIsNotDrawn) {
  write("summary.json", R"({"mesh": {"dp": 1, "fsdp": 1, "tp": 2}, "ranks": [{"rank": 0}, {"rank": 2}]})");
  const PageJson mesh = detail::mesh_json(read(), nullptr);
  EXPECT_EQ(mesh["axes"], nullptr);
  EXPECT_EQ(mesh["ranks"].size(), 2U);
  EXPECT_EQ(mesh["ranks"][1]["place"], nullptr);
}

TEST_F(RunJson, WithoutASummaryTheMeshIsThatOfTheOptions) {
  make({.has_summary = false});
  EXPECT_EQ(detail::mesh_json(read(), nullptr)["axes"], nullptr);
  write("config.toml", "[mesh]\n# Copies\ndp = 2\n  fsdp=1\ntp = 2  # more\nprefetch = true\n[train]\ndp = 9\n");
  const RunTables tables = read();
  EXPECT_EQ(detail::mesh_json(tables, nullptr)["axes"], (PageJson{{"dp", 2}, {"fsdp", 1}, {"tp", 2}}));
  EXPECT_EQ(detail::head_json(directory, tables, nullptr)["world_size"], 4);
  for (const char* spoilt :
       {"[mesh]\ndp = 0\nfsdp = 1\ntp = 1\n", "[mesh]\ndp = 1\nfsdp = 1\n", "dp = 1\nfsdp = 1\ntp = 4\n",
        "[mesh]\ndp = 99999\nfsdp = 99999\ntp = 1\n", "[mesh]\ndp = x\nfsdp = 4\ntp = 1.0\n", "["}) {
    write("config.toml", spoilt);
    EXPECT_EQ(detail::mesh_json(read(), nullptr)["axes"], nullptr) << spoilt;
  }
}

// Four ranks began, and the run ended on two.
TEST_F(RunJson, RanksThatALargerWorldHadAreLeftOut) {
  make();
  make({.ranks = 2, .has_tables = false});
  RunTables tables = read();
  detail::keep_ranks_of(tables.world_size, tables);
  EXPECT_EQ(missing_of(tables), "earlier ranks;");
  const PageJson mesh = detail::mesh_json(tables, nullptr);
  EXPECT_EQ(mesh["axes"], (PageJson{{"dp", 1}, {"fsdp", 1}, {"tp", 2}}));
  EXPECT_EQ(mesh["ranks"].size(), 2U);
  EXPECT_EQ(detail::memory_json(tables)["ranks"].size(), 2U);
}

TEST_F(RunJson, JsonThatIsNestedDeeplyIsPassedOver) {
  const std::string deep = "{\"end\": " + std::string(300'000, '[');
  write("summary.json", deep + std::string(300'000, ']') + "}");
  write("metrics.jsonl", deep + std::string(300'000, ']') + "}\n{\"rank\": 0, \"step\": 1, \"x\": \"[[[\"}\n");
  const RunTables tables = read();
  EXPECT_EQ(missing_of(tables), "summary.json;loss.csv;");
  EXPECT_EQ(tables.ranks.at(0).size(), 1U);
  EXPECT_EQ(tables.problems.size(), 1U);
}

TEST_F(RunJson, TheHeadHasTheNumbersOfTheSummary) {
  make();
  const PageJson head = detail::head_json(directory + "/", read(), nullptr);
  EXPECT_EQ(head["name"], fs::path(directory).filename().string());
  EXPECT_EQ(head["state"], "done");
  EXPECT_EQ(head["steps"], 40);
  EXPECT_EQ(head["tokens_per_second"], 20'000.5);
  EXPECT_EQ(head["exposed_share"], 0.2);
  EXPECT_EQ(head["last_loss"].get<double>(), testing::made_loss(40));
}

// The first step began 0.05 s before the end of its line; the last line ends the run.
TEST_F(RunJson, TheTimesAreThoseOfTheFirstAndTheLastStep) {
  make();
  RunTables tables = read();
  EXPECT_NEAR(tables.began, testing::kMadeBegin + 0.06 - 0.053, 1e-6) << "rank 3 began first";
  EXPECT_NEAR(tables.ended, testing::kMadeBegin + 0.06 * 40, 1e-6);
  write(
      "launch.json",
      R"({"ranks": 4, "exit_code": 0, "ended": "2026-11-19T20:00:00Z", "starts": [{"time": "2026-11-18T19:59:00Z", "ranks": []}]})");
  tables = read();
  EXPECT_LT(tables.began, testing::kMadeBegin - 50) << "the launcher started before the first step";
  EXPECT_GT(tables.ended, testing::kMadeBegin + 80'000);
  const PageJson head = detail::head_json(directory, tables, nullptr);
  EXPECT_EQ(head["began"].get<double>(), tables.began);
  EXPECT_EQ(head["ended"].get<double>(), tables.ended);
  EXPECT_EQ(head["resumed_from"], nullptr);
}

TEST_F(RunJson, TimesThatAreNoneAreNotShown) {
  write("metrics.jsonl",
        "{\"rank\": 0, \"step\": 1, \"time\": 1e300}\n{\"rank\": 0, \"step\": 2, \"time\": \"now\"}\n");
  const PageJson head = detail::head_json(directory, read(), nullptr);
  EXPECT_EQ(head["began"], nullptr);
  EXPECT_EQ(head["ended"], nullptr);
}

TEST_F(RunJson, WithoutLossesTheMetricsHaveTheCurves) {
  make();
  fs::remove(directory + "/loss.csv");
  const PageJson curves = detail::curves_json(read());
  EXPECT_EQ(curves["loss"]["grad_norm"][3], 0.5);
  EXPECT_EQ(curves["loss"]["learning_rate"][3], 0.001);
}

TEST_F(RunJson, WhatIsMissingIsNamedWithTheReason) {
  const RunTables none = read();
  EXPECT_FALSE(none.has_any());
  EXPECT_EQ(missing_of(none), "summary.json;loss.csv;metrics.jsonl;");
  for (const auto& part : none.missing) EXPECT_FALSE(part.why.empty());
  make({.has_summary = false});
  const RunTables some = read();
  EXPECT_TRUE(some.has_any());
  EXPECT_EQ(missing_of(some), "summary.json;");
  EXPECT_EQ(detail::head_json(directory, some, nullptr)["last_loss"].get<double>(), testing::made_loss(40));
  EXPECT_TRUE(detail::memory_json(some)["peaks"].empty());
}

TEST_F(RunJson, SpoiltLinesArePassedOverAndCounted) {
  make({.steps = 3});
  append("loss.csv", "4,1.5\n5,nan,1,1,\nx,1,1,1,1\n6,1,2,3,4,5,6,7\n7,1.25,1,1,");  // the last is being written
  append("metrics.jsonl",
         "{\"rank\": 0, \"step\"\n[]\n{\"rank\": -1, \"step\": 1}\n{\"rank\": 1e99, \"step\": 1}\n"
         "{\"rank\": 0, \"step\": 4, \"loss\": null, \"memory\": {\"odd\": -5, \"x\": \"y\"}}\n");
  const RunTables tables = read();
  ASSERT_EQ(tables.losses.size(), 4U);
  EXPECT_EQ(tables.losses.back().step, 5);
  EXPECT_EQ(detail::curves_json(tables)["loss"]["loss"][3].dump(), "null") << "not finite";
  EXPECT_EQ(tables.ranks.at(0).size(), 4U);
  EXPECT_EQ(tables.owners.size(), 4U) << "bytes below none are no bytes";
  ASSERT_EQ(tables.problems.size(), 2U);
  EXPECT_EQ(tables.problems[0], "loss.csv: 3 unreadable lines were skipped");
  EXPECT_EQ(tables.problems[1], "metrics.jsonl: 4 unreadable lines were skipped");
}

TEST_F(RunJson, OfAStepThatWasTakenAgainTheLastLineCounts) {
  write("loss.csv",
        "step,loss,grad_norm,learning_rate,held_out_loss\n1,5,1,1,\n2,4,1,1,\n3,9,1,1,\n2,3.5,1,1,\n3,3,1,1,\n");
  const RunTables tables = read();
  ASSERT_EQ(tables.losses.size(), 3U);
  EXPECT_EQ(tables.losses[1].loss, 3.5);
  EXPECT_EQ(tables.losses[2].loss, 3);
}

TEST_F(RunJson, ASummaryThatIsNoneIsTold) {
  write("summary.json", "[1, 2");
  EXPECT_EQ(missing_of(read()), "summary.json;loss.csv;metrics.jsonl;");
  write("summary.json", R"({"end": 7, "ranks": {"rank": 1}, "mesh": {"dp": -1, "fsdp": 1e300, "tp": "x"}, "loss": 4})");
  const RunTables tables = read();
  EXPECT_EQ(detail::mesh_json(tables, nullptr)["axes"], nullptr);
  EXPECT_EQ(detail::head_json(directory, tables, nullptr)["state"], "unknown");
}

TEST_F(RunJson, APipeInPlaceOfAFileIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo((directory + "/metrics.jsonl").c_str(), 0600), 0);
  EXPECT_EQ(missing_of(read()), "summary.json;loss.csv;metrics.jsonl;");
}

TEST_F(RunJson, LongRunsAreMergedToTheMeanOfTheirSteps) {
  std::string text = "step,loss,grad_norm,learning_rate,held_out_loss\n";
  for (int step = 1; step <= 5000; ++step) text += std::to_string(step) + "," + std::to_string(step) + ",1,1,\n";
  write("loss.csv", text);
  const PageJson curves = detail::curves_json(read());
  EXPECT_EQ(curves["loss"]["stride"], 3);
  EXPECT_EQ(curves["loss"]["step"].size(), 1667U);
  EXPECT_EQ(curves["loss"]["step"][1], 6);
  EXPECT_EQ(curves["loss"]["loss"][1], 5.0);
  EXPECT_EQ(curves["loss"]["step"].back(), 5000);
  EXPECT_EQ(curves["loss"]["loss"].back(), 4999.5);
}

TEST_F(RunJson, OfMergedStepsMemoryShowsTheOneThatHeldMost) {
  std::string text;
  for (int step = 1; step <= 1200; ++step)
    text += "{\"rank\": 0, \"step\": " + std::to_string(step) +
            ", \"memory\": {\"a\": " + std::to_string(step == 600 ? 77777 : 5) + "}}\n";
  write("metrics.jsonl", text);
  const PageJson memory = detail::memory_json(read());
  EXPECT_EQ(memory["ranks"][0]["stride"], 3);
  EXPECT_EQ(memory["ranks"][0]["step"][199], 600);
  EXPECT_EQ(memory["ranks"][0]["nbytes"][0][199], 77777);
}

}  // namespace
}  // namespace tessera::analysis
