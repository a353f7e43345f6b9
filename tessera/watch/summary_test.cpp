// Summaries of ranks: they fit, are read back unchanged, and invalid ones are rejected.
#include "tessera/watch/detail/summary.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tessera/analysis/evidence_json.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/store/memory_store.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/watch/detail/exchange.h"

namespace tessera::watch::detail {
namespace {

using analysis::Evidence;
using analysis::RankState;

std::string text_of(const Evidence& evidence) {
  std::ostringstream text;
  analysis::write_evidence_json(text, evidence);
  return text.str();
}
// Returns a summary of `rank` about itself and others.
std::string summary(int rank, RankState state, const std::vector<analysis::Rank>& others = {}) {
  Evidence evidence{.world_size = 3, .ranks = {{.rank = rank, .state = state, .host = "node"}}};
  evidence.ranks.insert(evidence.ranks.end(), others.begin(), others.end());
  return text_of(evidence);
}

TEST(Summary, IsCutToTheLastLaunchesUntilItFits) {
  simulate(1, [] {
    std::vector<comm::ProcessGroup> groups;
    for (int i = 0; i < 4; ++i) {
      groups.push_back(comm::world().split(0, 0));
      for (int turn = 0; turn < 40; ++turn) {
        groups.back().launch({.kind = comm::OpKind::kBarrier}, device::Device::get("host").default_stream()).wait();
      }
    }
    const Teller teller{.rank = 0, .world_size = 1, .record = probe::recorder().path()};
    const std::string whole = summary_of(teller);
    EXPECT_LE(whole.size(), kMaxSummaryBytes);
    const std::string text = summary_of(teller, false, whole.size() / 2);
    EXPECT_LE(text.size(), whole.size() / 2);
    const Evidence read = analysis::read_evidence_json(text);
    ASSERT_EQ(read.ranks.size(), 1U);
    ASSERT_EQ(read.ranks[0].groups.size(), 5U) << "none is left out";
    EXPECT_EQ(read.ranks[0].groups.back().launches.back().collective_number, 40U) << "the last stays";
    const Evidence bare = analysis::read_evidence_json(summary_of(teller, false, 10));
    EXPECT_EQ(bare.ranks.at(0).state, RankState::kRunning);
    EXPECT_TRUE(bare.ranks[0].groups.empty());
  });
}

TEST(Summary, OfARankWithoutARecordSaysThatItRuns) {
  const Evidence read = analysis::read_evidence_json(summary_of({.rank = 2, .world_size = 4}));
  ASSERT_EQ(read.ranks.size(), 1U);
  EXPECT_EQ(read.ranks[0].rank, 2);
  EXPECT_EQ(read.ranks[0].state, RankState::kRunning);
  EXPECT_EQ(analysis::read_evidence_json(summary_of({.rank = 2, .world_size = 4}, true)).ranks[0].state,
            RankState::kEnded);
}

TEST(Summaries, ARankCountsForItselfBeforeOthersDo) {
  const analysis::Rank died{.rank = 1, .state = RankState::kDied, .last_ns = 9};
  const analysis::Rank stopped{.rank = 2, .state = RankState::kStopped, .last_ns = 5};
  const analysis::Rank older{.rank = 2, .state = RankState::kDied, .last_ns = 4};
  const Evidence all =
      joined(3, {{0, summary(0, RankState::kRunning, {died, stopped})}, {1, summary(1, RankState::kRunning, {older})}});
  ASSERT_EQ(all.ranks.size(), 3U);
  EXPECT_EQ(all.ranks[0].state, RankState::kRunning);
  EXPECT_EQ(all.ranks[1].state, RankState::kRunning) << "it reported so itself";
  EXPECT_EQ(all.ranks[2].state, RankState::kStopped) << "the later of the two";
  EXPECT_TRUE(all.problems.empty());
  EXPECT_EQ(joined(4, {}).ranks[3].state, RankState::kMissing);
}

TEST(Summaries, WhatIsNoneIsLeftOutAndTold) {
  const std::string good = summary(1, RankState::kRunning);
  const std::vector<std::string> bad = {"",
                                        "{",
                                        "[]",
                                        good.substr(0, good.size() / 2),
                                        std::string(2 * kMaxSummaryBytes, ' ') + good,
                                        std::string(100'000, '['),
                                        summary(0, RankState::kRunning, {{.rank = 3}})};
  for (const std::string& each : bad) {
    const Evidence all = joined(3, {{0, each}, {1, good}});
    ASSERT_EQ(all.problems.size(), 1U) << each.substr(0, 40);
    EXPECT_EQ(all.problems[0].rfind("summary of rank 0: ", 0), 0U) << all.problems[0];
    EXPECT_EQ(all.ranks[1].state, RankState::kRunning);
  }
}

TEST(Summaries, TheEndOfARankCountsBeforeItsAnswerToAnAlarm) {
  const auto store = std::make_shared<comm::MemoryStore>();
  store->set("watch/1/summary 1", summary(1, RankState::kRunning));
  store->set("watch/1/summary 2", summary(2, RankState::kRunning));
  const analysis::Rank failed{.rank = 1, .state = RankState::kFailed, .reason = "exited with 3"};
  store->set("watch/end 1", text_of({.world_size = 3, .ranks = {failed}}));
  const auto exchange = SummaryExchange::start(store, {.rank = 0, .world_size = 3}, [] {});
  const auto now = SummaryExchange::Clock::now();
  const std::optional<Report> report = exchange->ask("a rank left", now, now + std::chrono::minutes(1));
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->sentence.rfind("rank 1 failed: exited with 3", 0), 0U) << report->sentence;
}

TEST(Summaries, ARankThatLeavesNeedsItsRecordNoLonger) {
  char directory[] = "/tmp/tessera_summary_XXXXXX";
  ASSERT_NE(::mkdtemp(directory), nullptr);
  simulate(1, [&] {
    comm::world().launch({.kind = comm::OpKind::kBarrier}, device::Device::get("host").default_stream()).wait();
    const std::filesystem::path original = probe::recorder().path();
    const std::filesystem::path copy = directory / original.filename();
    std::filesystem::copy_file(original, copy);
    const auto store = std::make_shared<comm::MemoryStore>();
    const auto exchange = SummaryExchange::start(store, {.rank = 0, .world_size = 1, .record = copy.string()}, [] {});
    exchange->leave(/*has_failed=*/false, std::chrono::milliseconds(0));
    std::filesystem::remove(copy);
    const Evidence read = analysis::read_evidence_json(store->get("watch/end 0", std::chrono::minutes(1)));
    EXPECT_FALSE(read.ranks.at(0).groups.empty());
  });
  std::filesystem::remove_all(directory);
}

TEST(HeardVerdict, ComesBackAsItWasAndNothingElseDoes) {
  const RankReport told{.report = {.fault = "absent", .sentence = "rank 1 \xff did not come"}, .text = "all\nof it"};
  const std::string text = text_of_verdict(told, "node:/runs/a/explain.txt");
  const HeardVerdict heard = parse_verdict(text);
  EXPECT_EQ(heard.told.report.fault, "absent");
  EXPECT_EQ(heard.told.report.sentence, "rank 1 \xef\xbf\xbd did not come");
  EXPECT_EQ(heard.told.text, "all\nof it");
  EXPECT_EQ(heard.where, "node:/runs/a/explain.txt");
  for (const std::string& bad : {std::string(), std::string("{}"), text.substr(0, text.size() / 2),
                                 std::string(std::size_t{1} << 20, ' ') + text, std::string("[1]")}) {
    EXPECT_THROW((void)parse_verdict(bad), IoError) << bad.substr(0, 40);
  }
}

}  // namespace
}  // namespace tessera::watch::detail
