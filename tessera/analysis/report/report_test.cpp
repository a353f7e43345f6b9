// The complete page: its structure, that text of a run cannot become markup, its size, and its messages about missing
// files.
#include "tessera/analysis/report/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <nlohmann/json.hpp>

#include "tessera/analysis/report/testing/made_run.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::analysis {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::MadeRun;

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class Report : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "report_XXXXXX";
    directory = ::mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(directory); }
  [[nodiscard]] ReportPage page_of(const MadeRun& run, const ReportOptions& options = {}) const {
    testing::make_run(directory, run);
    return make_report_page(directory, options);
  }
  static std::string text_of(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  // Returns the contents of the element with this id.
  static std::string element(const std::string& html, const std::string& id) {
    const std::size_t open = html.find("id=\"" + id + "\">");
    const std::size_t begin = html.find('>', open) + 1;
    return html.substr(begin, html.find("</script>", begin) - begin);
  }

  std::string directory;
};

TEST_F(Report, HoldsAllOfItsDataAndAsksNothingOfANetwork) {
  const ReportPage page = page_of({.kernels = 5});
  EXPECT_EQ(page.missing, std::vector<std::string>());
  EXPECT_EQ(json::parse(element(page.html, "data")), json::parse(page.data));
  EXPECT_GT(element(page.html, "events").size(), 100U);
  EXPECT_EQ(page.html.find("{{"), std::string::npos) << "a part was not put in";
  EXPECT_NE(page.html.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(page.html.find("connect-src"), std::string::npos) << "a file makes no request";
  EXPECT_EQ(count_of(page.html, "src="), 0U);
  EXPECT_EQ(count_of(page.html, "http://") + count_of(page.html, "https://"),
            count_of(page.html, "http://www.w3.org/2000/svg"));
  for (const char* markup : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "DOMParser"})
    EXPECT_EQ(page.html.find(markup), std::string::npos) << markup;
  const json data = json::parse(page.data);
  EXPECT_EQ(data.at("verdict").at("fault"), "none");
  EXPECT_EQ(data.at("timeline").at("events"), page.events);
  EXPECT_EQ(data.at("collectives").size(), 2U);
}

TEST_F(Report, TextOfARunCannotEndItsElement) {
  const std::string odd = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>\xff\xe2\x80\xa8";
  const ReportPage page = page_of({.odd = odd});
  EXPECT_EQ(count_of(page.html, "<script"), 3U) << "data, ours, events";
  EXPECT_EQ(count_of(page.html, "</script"), 3U);
  EXPECT_EQ(count_of(page.html, "<!--"), 0U);
  EXPECT_EQ(count_of(page.html, "<img"), 0U);
  EXPECT_EQ(element(page.html, "data").find('<'), std::string::npos);
  // It is present as it was written.
  const json data = json::parse(element(page.html, "data"));
  EXPECT_NE(data.at("run").at("reason").get<std::string>().find("</script><script>alert(1)"), std::string::npos);
  EXPECT_NE(data.at("memory").at("owners").dump().find("onerror"), std::string::npos);
  EXPECT_NE(data.at("timeline").at("names").dump().find("onerror"), std::string::npos);
  EXPECT_NE(data.at("collectives").dump().find("onerror"), std::string::npos);
  EXPECT_NE(data.at("configuration").dump().find("onerror"), std::string::npos);
}

TEST_F(Report, APageOfAMillionEventsHasAtMost20MB) {
  const ReportPage page = page_of(testing::million_events());
  EXPECT_GE(page.events, 1'000'000U);
  EXPECT_LE(page.html.size(), 20'000'000U);
  EXPECT_EQ(json::parse(page.data).at("timeline").at("left_out"), 0);
}

TEST_F(Report, MoreEventsThanThereIsRoomForAreToldAndTheLatestKept) {
  const ReportPage page = page_of({.steps = 100, .kernels = 50}, {.max_events = 1000});
  EXPECT_LE(page.events, 1000U);
  ASSERT_EQ(page.missing.size(), 1U);
  EXPECT_NE(page.missing[0].find("old events"), std::string::npos) << page.missing[0];
}

TEST_F(Report, WithoutRecordsTheRestIsShownAndTheReasonTold) {
  const ReportPage page = page_of({.has_records = false});
  const json data = json::parse(page.data);
  EXPECT_EQ(data.at("timeline"), nullptr);
  EXPECT_EQ(data.at("verdict"), nullptr);
  EXPECT_EQ(data.at("curves").at("loss").at("step").size(), 40U);
  ASSERT_EQ(page.missing.size(), 1U);
  EXPECT_NE(page.missing[0].find("records of ranks"), std::string::npos) << page.missing[0];
}

TEST_F(Report, WithoutTablesTheRecordsAreShownAndTheReasonTold) {
  const ReportPage page = page_of({.has_tables = false, .has_summary = false});
  const json data = json::parse(page.data);
  EXPECT_EQ(page.missing.size(), 3U);
  EXPECT_GT(page.events, 0U);
  EXPECT_EQ(data.at("run").at("state"), "ended");
  EXPECT_EQ(data.at("run").at("world_size"), 4);
  EXPECT_EQ(data.at("mesh").at("ranks").size(), 4U);
}

TEST_F(Report, OfARunThatGoesOnItShowsWhatThereIsAndSaysSo) {
  testing::make_run(directory, {.ranks = 1, .steps = 7, .has_summary = false, .has_records = false});
  const probe::Recorder rank(RankPlace{.rank = tessera::Rank{0}, .world_size = 1, .run_dir = directory},
                             {.nbytes = probe::RecordOptions::kMinBytes});
  const ReportPage page = make_report_page(directory);
  const json data = json::parse(page.data);
  EXPECT_EQ(data.at("run").at("state"), "running");
  EXPECT_EQ(data.at("run").at("steps"), 7);
  ASSERT_EQ(page.missing.size(), 2U);
  EXPECT_EQ(page.missing[0].find("summary.json: "), 0U) << page.missing[0];
  EXPECT_EQ(page.missing[1], "the end: 1 of 1 ranks are still running; the report shows their progress so far.");
}

// As if a rank that has trained creates the page before it ends.
TEST_F(Report, ARunWhoseSummarySaysThatItIsDoneRunsNoMore) {
  testing::make_run(directory, {.ranks = 1, .steps = 7, .has_records = false});
  const probe::Recorder rank(RankPlace{.rank = tessera::Rank{0}, .world_size = 1, .run_dir = directory},
                             {.nbytes = probe::RecordOptions::kMinBytes});
  const ReportPage page = make_report_page(directory);
  const json data = json::parse(page.data);
  EXPECT_EQ(data.at("run").at("state"), "done");
  EXPECT_EQ(data.at("verdict").at("sentence"), "no fault: 1 rank ended normally");
  EXPECT_EQ(page.missing, std::vector<std::string>());
}

TEST_F(Report, RecordsThatAreSpoiltAreToldAndTheOthersShown) {
  testing::make_run(directory, {});
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().filename().string().starts_with("rank-2.")) fs::resize_file(entry.path(), 100);
  }
  const ReportPage page = make_report_page(directory);
  const json data = json::parse(page.data);
  EXPECT_GT(data.at("problem_count"), 0);
  EXPECT_GT(page.events, 0U);
}

TEST_F(Report, ADirectoryThatHoldsNoRunIsRefusedWithTheWayOut) {
  expect_error<IoError>([&] { (void)make_report_page(directory + "/none"); }, {": no such directory"});
  expect_error<IoError>([&] { (void)make_report_page(directory); }, {"give a run directory"});
  EXPECT_EQ(leave_report_page(directory).find("no report: "), 0U);
  EXPECT_TRUE(fs::is_empty(directory));
}

TEST_F(Report, IsWrittenAsAWholeIntoTheRunDirectory) {
  testing::make_run(directory, {.steps = 3});
  const std::string said = leave_report_page(directory);
  EXPECT_EQ(said, "report: " + directory + "/report.html");
  EXPECT_EQ(text_of(directory + "/report.html"), make_report_page(directory).html) << "the same run, the same page";
  EXPECT_EQ(write_report_page(directory, directory + "/other.html"), directory + "/other.html");
  expect_error<IoError>([&] { (void)write_report_page(directory, directory + "/none/x.html"); }, {"none/x.html"});
}

}  // namespace
}  // namespace tessera::analysis
