// Updates of a served page: what is new after a cursor, and when all must be read again.
#include "tessera/analysis/report/live_report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <nlohmann/json.hpp>

#include "tessera/analysis/report/testing/made_run.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::analysis {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A run of two ranks: one has a record, and its process, this one, runs.
class LiveReportTest : public ::testing::Test {
 protected:
  static std::string make_directory() {
    std::string name = ::testing::TempDir() + "live_report_XXXXXX";
    return ::mkdtemp(name.data());
  }
  void TearDown() override {
    rank.reset();
    fs::remove_all(directory);
  }

  void begin(int steps) {
    testing::make_run(directory, {.ranks = 2, .steps = steps, .has_summary = false, .has_records = false});
    rank.emplace(RankPlace{.rank = tessera::Rank{0}, .world_size = 1, .run_dir = directory},
                 probe::RecordOptions{.nbytes = probe::RecordOptions::kMinBytes});
  }
  void append(const std::string& name, const std::string& text) const {
    std::ofstream(directory + "/" + name, std::ios::app) << text;
  }
  static std::string metrics(int rank, int step, double seconds = 0.5) {
    return nlohmann::ordered_json({{"rank", rank},
                                   {"step", step},
                                   {"loss", 2.5},
                                   {"tokens", 100},
                                   {"seconds", seconds},
                                   {"exposed_seconds", 0.25},
                                   {"memory", {{"parameters", 7}, {"fresh", 1000 + step}, {"total", 1007 + step}}}})
               .dump() +
           "\n";
  }
  static std::string query(const json& cursor) {
    return "loss=" + cursor.at("loss").get<std::string>() + "&metrics=" + cursor.at("metrics").get<std::string>();
  }
  [[nodiscard]] json first() { return json::parse(report.data()).at("live"); }
  [[nodiscard]] json update(const json& cursor) { return json::parse(report.update(query(cursor))); }

  std::string directory = make_directory();
  LiveReport report{directory};
  std::optional<probe::Recorder> rank;
};

TEST_F(LiveReportTest, AnUpdateHasTheStepsAfterTheCursorAndNoOthers) {
  begin(5);
  const json cursor = first();
  json none = update(cursor);
  EXPECT_EQ(none["state"], "running");
  EXPECT_TRUE(none["losses"].empty());
  EXPECT_TRUE(none["speeds"].empty());
  EXPECT_TRUE(none["memory"].empty());
  EXPECT_EQ(none["cursor"]["loss"], cursor["loss"]);
  EXPECT_EQ(none["cursor"]["metrics"], cursor["metrics"]);
  append("loss.csv", "6,2.25,0.5,0.001,2.75\n7,nan,inf,0.002,\n8,2");  // the last is being written
  append("metrics.jsonl", metrics(0, 6) + metrics(1, 6, 0.75) + metrics(0, 7));
  const json some = update(cursor);
  EXPECT_EQ(some["losses"], json::parse("[[6, 2.25, 0.5, 0.001, 2.75], [7, null, null, 0.002, null]]"));
  EXPECT_EQ(some["speeds"], json::parse("[[6, 100.0, 0.75, 1.25, 0.5, 2], [7, 100.0, 0.5, 0.5, 0.25, 1]]"));
  EXPECT_EQ(some["owners"], json::parse(R"(["parameters", "fresh"])"));
  EXPECT_EQ(some["memory"], json::parse("[[0, 6, [7, 1006]], [0, 7, [7, 1007]], [1, 6, [7, 1006]]]"));
  EXPECT_FALSE(some["is_replaced"]);
  EXPECT_FALSE(some["has_more"]);
  EXPECT_GE(some["age"], 0);
  append("loss.csv", ".125,1,1,\n");
  const json last = update(some["cursor"]);
  EXPECT_EQ(last["losses"], json::parse("[[8, 2.125, 1.0, 1.0, null]]"));
  EXPECT_TRUE(last["speeds"].empty());
  EXPECT_EQ(update(cursor)["losses"].size(), 3U) << "another reader has its own cursor";
}

TEST_F(LiveReportTest, AnUpdateReadsABoundedPartAndStatesThatThereIsMore) {
  begin(1);
  json cursor = first();
  std::string many;
  for (int step = 2; step <= 100'001; ++step) many += std::to_string(step) + ",2.25,0.5,0.001,\n";
  append("loss.csv", many);
  std::size_t rows = 0;
  int updates = 0;
  for (bool has_more = true; has_more; ++updates) {
    const json next = update(cursor);
    EXPECT_LE(next["losses"].size(), (1U << 20) / 17);
    rows += next["losses"].size();
    has_more = next["has_more"];
    cursor = next["cursor"];
  }
  EXPECT_EQ(rows, 100'000U);
  EXPECT_GE(updates, 2);
  append("loss.csv", std::string(3 << 20, 'x'));  // no line: it is passed over and does not stop the rest
  for (int i = 0; i < 3; ++i) cursor = update(cursor)["cursor"];
  append("loss.csv", "\n200000,1,1,1,\n");
  EXPECT_EQ(update(cursor)["losses"].size(), 1U);
}

TEST_F(LiveReportTest, FilesThatWereReplacedAreReadAgain) {
  begin(5);
  const json cursor = first();
  fs::rename(directory + "/loss.csv", directory + "/old.csv");  // as a start after a checkpoint does
  append("loss.csv", "step,loss,grad_norm,learning_rate,held_out_loss\n1,5,1,1,\n");
  json replaced = update(cursor);
  EXPECT_TRUE(replaced["is_replaced"]);
  EXPECT_TRUE(replaced["losses"].empty());
  const json again = first();
  EXPECT_FALSE(update(again)["is_replaced"]);
  fs::resize_file(directory + "/loss.csv", 10);
  EXPECT_TRUE(update(again)["is_replaced"]) << "it was truncated";
  fs::remove(directory + "/metrics.jsonl");
  EXPECT_TRUE(update(again)["is_replaced"]);
}

TEST_F(LiveReportTest, ACursorBeforeTheFirstStepSeesTheFirst) {
  testing::make_run(directory, {.ranks = 1, .has_tables = false, .has_summary = false, .has_records = false});
  rank.emplace(RankPlace{.rank = tessera::Rank{0}, .world_size = 1, .run_dir = directory},
               probe::RecordOptions{.nbytes = probe::RecordOptions::kMinBytes});
  const json cursor = first();
  EXPECT_EQ(query(cursor), "loss=0.0&metrics=0.0");
  EXPECT_EQ(update(cursor)["age"], nullptr);
  append("loss.csv", "step,loss,grad_norm,learning_rate,held_out_loss\n1,5,1,1,\n");
  const json some = update(cursor);
  EXPECT_EQ(some["losses"].size(), 1U);
  EXPECT_FALSE(some["is_replaced"]);
}

TEST_F(LiveReportTest, TheLastUpdateHasTheEndAndAllSteps) {
  begin(5);
  const json cursor = first();
  EXPECT_NE(report.page().find("connect-src 'self';"), std::string::npos);
  rank->close();
  testing::make_run(directory, {.ranks = 2, .steps = 5, .has_tables = false, .has_records = false});
  append("loss.csv", "6,2.25,0.5,0.001,\n");
  LiveReport other(directory);  // has not read the state yet
  const json last = json::parse(other.update(query(cursor)));
  EXPECT_EQ(last["state"], "done");
  EXPECT_EQ(last["losses"].size(), 1U);
  EXPECT_EQ(first(), nullptr) << "an ended run is not live";
  EXPECT_EQ(report.page().find("connect-src"), std::string::npos);
  const json data = json::parse(report.data());
  EXPECT_EQ(data["curves"]["loss"]["step"].size(), 6U);
  EXPECT_TRUE(data["events"].is_string());
}

TEST_F(LiveReportTest, QueriesThatAreNoCursorAreRejected) {
  begin(1);
  for (const char* query : {"", "loss=1.2", "metrics=1.2", "loss=1&metrics=1.2", "loss=1.2&metrics=-1.2",
                            "loss=1.2&metrics=1.x", "loss=1.2&metrics=1.2.3", "loss=&metrics=",
                            "loss=1.2&metrics=99999999999999999999.1", "loss=../etc/passwd&metrics=1.2"})
    expect_error<InvalidArgument>([&] { (void)report.update(query); }, {"must be INODE.OFFSET"});
  EXPECT_TRUE(json::parse(report.update("loss=1.18446744073709551615&metrics=1.5"))["is_replaced"]);
}

}  // namespace
}  // namespace tessera::analysis
