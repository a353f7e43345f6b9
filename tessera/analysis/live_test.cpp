// Output of `tessera watch` without a terminal: rows from evidence and metrics, and lines that fit a screen.
#include "tessera/analysis/live.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tessera/analysis/testing/small_evidence.h"

namespace tessera::analysis {
namespace {

using analysis::testing::kStart;
using analysis::testing::launch_of;
using analysis::testing::small_evidence;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kSecond = 1'000'000'000;

// All ranks run, and nothing is in flight.
Evidence healthy(int ranks) {
  Evidence evidence{.source = "runs/b", .world_size = ranks, .taken_ns = kStart + 100 * kSecond};
  for (int rank = 0; rank < ranks; ++rank) {
    Rank each{.rank = rank, .state = RankState::kRunning};
    each.groups = {{.name = "world", .backend = "shm", .ranks = {0, 1}, .rank = rank, .ended = 10}};
    evidence.ranks.push_back(each);
  }
  return evidence;
}

TEST(Metrics, TakesTheLastLineOfEachRankAndPassesOverTheRest) {
  const auto found = parse_metrics(
      "0,\"step\":3}\n"  // truncated at its beginning
      "{\"rank\":0,\"step\":7,\"loss\":2.5,\"tokens_per_second\":9752.4,\"memory\":{\"weights\":100,\"gradients\":20}}"
      "\n"
      "{\"rank\":1,\"step\":6,\"loss\":null}\n"
      "not json\n"
      "[1,2]\n"
      "{\"rank\":\"one\",\"step\":9}\n"
      "{\"rank\":-1,\"step\":9}\n"
      "{\"rank\":2,\"step\":1.5}\n"
      "{\"rank\":3,\"step\":1,\"memory\":{\"x\":\"y\",\"z\":-4},\"loss\":\"low\"}\n"
      "{\"rank\":0,\"step\":8,\"loss\":2.25,\"tokens_per_second\":9000}\n"
      "{\"rank\":0,\"step\":9,\"lo");  // being written
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found.at(0).step, 8);
  EXPECT_EQ(found.at(0).loss, 2.25);
  EXPECT_EQ(found.at(0).tokens_per_second, 9000);
  EXPECT_EQ(found.at(0).memory_nbytes, std::nullopt);
  EXPECT_EQ(found.at(1).step, 6);
  EXPECT_EQ(found.at(1).loss, std::nullopt);
  EXPECT_EQ(found.at(3).loss, std::nullopt);
  EXPECT_EQ(parse_metrics("{\"rank\":0,\"step\":7,\"memory\":{\"weights\":100,\"gradients\":20,\"total\":120}}\n")
                .at(0)
                .memory_nbytes,
            120U);
  const std::string deep(300'000, '[');
  EXPECT_EQ(parse_metrics("{\"x\":" + deep + "\n{\"rank\":0,\"step\":7}\n").size(), 1U);
  EXPECT_TRUE(parse_metrics("").empty());
}

TEST(Metrics, AFifoIsNotWaitedFor) {
  char name[] = "/tmp/tessera_live_fifo_XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  ASSERT_EQ(::mkfifo((std::string(name) + "/metrics.jsonl").c_str(), 0600), 0);
  EXPECT_TRUE(read_metrics(name, 1).empty());
  std::filesystem::remove_all(name);
}

TEST(Metrics, ReadsTheEndOfTheFileAndNothingWhereThereIsNone) {
  char name[] = "/tmp/tessera_live_XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  EXPECT_TRUE(read_metrics(name, 2).empty());
  {
    std::ofstream out(std::string(name) + "/metrics.jsonl");
    out << "{\"rank\":5,\"step\":1}\n";
    for (int i = 0; i < 5000; ++i) out << "{\"rank\":" << i % 2 << ",\"step\":" << i / 2 << ",\"loss\":1}\n";
  }
  const auto found = read_metrics(name, 2);
  ASSERT_EQ(found.size(), 2U) << "a line far back is not read";
  EXPECT_EQ(found.at(1).step, 2499);
  std::filesystem::remove_all(name);
}

TEST(LiveView, ShowsStateStepMemoryAndTheOperationInFlight) {
  Evidence evidence = small_evidence();
  evidence.taken_ns = kStart + 12 * kSecond + 101'250;
  const LiveView view = live_view(evidence, {{0, {.step = 9, .loss = 1.5, .tokens_per_second = 12345}}});
  ASSERT_EQ(view.rows.size(), 3U);
  EXPECT_EQ(view.summary, "3 ranks: 1 running, 1 died, 1 no record; 4 ranks began");
  EXPECT_EQ(view.problems, 1U);
  const LiveRow& first = view.rows[0];
  EXPECT_EQ(first.state, "running");
  EXPECT_EQ(first.step, 117) << "the step it is in, by its mark, before the one it told of last";
  EXPECT_EQ(first.operation, "world 5: all_reduce(f32[1048576], sum), waits for others")
      << "not the operations queued after it";
  EXPECT_EQ(first.in_flight_ns, 12 * kSecond);
  EXPECT_EQ(first.memory_nbytes, 1000U);
  EXPECT_EQ(first.failure, RankCondition::kLate);
  EXPECT_EQ(view.rows[1].state, "died (signal 9)");
  EXPECT_EQ(view.rows[1].failure, RankCondition::kDown);
  EXPECT_EQ(view.rows[1].operation, "");
  EXPECT_EQ(view.rows[2].state, "no record");
  EXPECT_THAT(live_cells(first), ElementsAre("0", "running", "117", "1.5000", "12.3k tok/s", "1000 B", "12 s",
                                             "world 5: all_reduce(f32[1048576], sum), waits for others in forward? 2"));
  EXPECT_THAT(live_cells(view.rows[2]), ElementsAre("2", "no record", "-", "-", "-", "-", "-", "-"));
}

TEST(LiveView, OfSeveralTheOneThatRunsLongestCountsElseTheOneAskedForFirst) {
  Evidence evidence = healthy(1);
  auto& launches = evidence.ranks[0].groups[0].launches;
  launches = {launch_of({.kind = "barrier"}, 1, 10, 0, 0, 0), launch_of({.kind = "gather"}, 2, 20, 0, 0, 0)};
  EXPECT_EQ(live_view(evidence, {}).rows[0].operation, "world 1: barrier, queued");
  launches.push_back(launch_of({.kind = "reduce", .dtype = "f32", .count = 3, .root = 0}, 3, 30, 40, 41, 0));
  launches.back().label = "loss";
  launches.push_back(launch_of({.kind = "broadcast"}, 4, 30, 50, 0, 0));
  EXPECT_EQ(live_view(evidence, {}).rows[0].operation, "world 3: reduce(f32[3], root 0), moves bytes");
  EXPECT_EQ(live_view(evidence, {}).rows[0].doing, "loss");
  launches[2].replay = 117;
  launches[2].node = 4;
  EXPECT_THAT(live_view(evidence, {}).rows[0].operation, HasSubstr("node 4 in replay 117"));
}

TEST(LiveView, HangsWhenSomethingIsLateOrARankIsDown) {
  Evidence evidence = healthy(2);
  EXPECT_FALSE(live_view(evidence, {}).is_hung);
  auto& launches = evidence.ranks[0].groups[0].launches;
  launches.push_back(launch_of({.kind = "barrier"}, 1, 1, 2, 0, 0));
  launches.back().begun_ns = evidence.taken_ns - 9 * kSecond;
  EXPECT_FALSE(live_view(evidence, {}).is_hung);
  EXPECT_TRUE(live_view(evidence, {}, nullptr, 5 * kSecond).is_hung);
  launches.back().begun_ns = evidence.taken_ns - 11 * kSecond;
  EXPECT_TRUE(live_view(evidence, {}).is_hung);
  evidence.ranks[0].state = RankState::kEnded;
  EXPECT_FALSE(live_view(evidence, {}).is_hung) << "an operation left open at the end blocks no rank";
  evidence.ranks[1].state = RankState::kStopped;
  EXPECT_TRUE(live_view(evidence, {}).is_hung);
  evidence.ranks[1].state = RankState::kMissing;
  EXPECT_FALSE(live_view(evidence, {}).is_hung) << "a rank may be yet to come";
}

TEST(LiveView, WithoutMetricsTheRateIsThatOfLaunchesThatEnded) {
  Evidence evidence = healthy(1);
  const LiveView before = live_view(evidence, {});
  EXPECT_EQ(live_cells(before.rows[0])[4], "-");
  evidence.taken_ns += kSecond / 2;
  evidence.ranks[0].groups[0].ended = 85;
  const LiveView after = live_view(evidence, {}, &before);
  EXPECT_EQ(after.rows[0].launches_per_second, 150);
  EXPECT_EQ(live_cells(after.rows[0])[4], "150 ops/s");
  evidence.ranks[0].groups[0].ended = 3;  // restarted
  EXPECT_EQ(live_view(evidence, {}, &before).rows[0].launches_per_second, std::nullopt);
  EXPECT_EQ(live_view(evidence, {}, &after).rows[0].launches_per_second, std::nullopt) << "no time has passed";
}

TEST(LiveLines, FitTheScreenAndEndWithTheLastLine) {
  const LiveView view = live_view(small_evidence(), {});
  for (const std::size_t width : {20u, 40u, 200u}) {
    const auto lines = live_lines(view, "rank 1 died and everyone waits for it: restart the run", {.width = width});
    ASSERT_EQ(lines.size(), 7U);
    for (const std::string& line : lines) EXPECT_LE(line.size(), width) << line;
    EXPECT_TRUE(lines.back().starts_with("rank 1 died and e")) << lines.back();
  }
  const auto lines = live_lines(view, "", {.width = 200});
  EXPECT_THAT(lines[0], HasSubstr("runs/a  3 ranks: 1 running, 1 died, 1 no record; 4 ranks began  22:13:20 UTC"));
  EXPECT_THAT(lines[1], HasSubstr("RANK  STATE            STEP  MEMORY  FOR    IN FLIGHT"));
  EXPECT_THAT(lines[1], Not(HasSubstr("LOSS"))) << "nothing is known of it";
  EXPECT_THAT(lines[2], HasSubstr("0     running          117   1000 B  0.0 s  world 5: all_reduce"));
  EXPECT_TRUE(live_lines(view, "", {.width = 40})[2].ends_with("...")) << "what was cut is marked";
}

TEST(LiveLines, WhenRanksDoNotFitThoseInTroubleComeFirst) {
  Evidence evidence = healthy(40);
  evidence.ranks[33].state = RankState::kDied;
  const LiveView view = live_view(evidence, {});
  const auto lines = live_lines(view, "last", {.width = 80, .height = 10});
  ASSERT_EQ(lines.size(), 10U);
  EXPECT_TRUE(lines[2].starts_with("33    died"));
  EXPECT_TRUE(lines[3].starts_with("0     running"));
  EXPECT_THAT(lines[8], HasSubstr("6 of 40 ranks"));
  EXPECT_EQ(lines[9], "last");
  const auto moved = live_lines(view, "last", {.width = 80, .height = 10, .first = 1000});
  ASSERT_EQ(moved.size(), 10U);
  EXPECT_TRUE(moved[7].starts_with("39 ")) << "scrolling ends with the last rank";
  for (const std::size_t height : {1u, 2u, 4u, 5u}) {
    EXPECT_LE(live_lines(view, "last", {.width = 80, .height = height}).size(), height);
    EXPECT_EQ(live_lines(view, "last", {.width = 80, .height = height}).back(), "last");
  }
}

TEST(LiveLines, WhatFilesSayCannotMoveTheCursor) {
  Evidence evidence = small_evidence();
  evidence.source = "runs/\033[2J";
  evidence.ranks[0].groups[0].name = "wor\nld\xc3\xa9";
  const LiveView view = live_view(evidence, {});
  for (const std::string& line : live_lines(view, "bell \a", {.width = 300})) {
    for (const char letter : line) EXPECT_TRUE(letter >= 0x20 && letter < 0x7f) << line;
  }
  for (const std::string& line : page_lines("a\033[31mb\r\nc", "\t", {.width = 300})) {
    for (const char letter : line) EXPECT_TRUE(letter >= 0x20 && letter < 0x7f) << line;
  }
}

TEST(LiveLines, ColoursAreForTerminalsThatHaveThem) {
  const LiveView view = live_view(small_evidence(), {});
  const auto lines = live_lines(view, "", {.width = 60, .has_colors = true});
  EXPECT_TRUE(lines[3].starts_with("\033[31m1     died")) << lines[3];
  EXPECT_TRUE(lines[3].ends_with("\033[0m"));
  EXPECT_TRUE(lines[2].starts_with("0 ")) << lines[2];
}

TEST(LiveLines, APageIsWrappedAndScrolled) {
  const std::string text = "one two three\nfour\n\nfive six seven eight nine ten";
  EXPECT_THAT(page_lines(text, "last", {.width = 10, .height = 0}),
              ElementsAre("one two", "three", "four", "", "five six", "seven", "eight nine", "ten", "last"));
  EXPECT_THAT(page_lines(text, "last", {.width = 10, .height = 3}), ElementsAre("one two", "three", "last"));
  EXPECT_THAT(page_lines(text, "last", {.width = 10, .height = 3, .first = 100}),
              ElementsAre("eight nine", "ten", "last"));
  EXPECT_THAT(page_lines("unbroken", "", {.width = 5, .height = 0}), ElementsAre("unbro", "ken", ""));
}

TEST(LiveLines, DurationsAreShort) {
  EXPECT_EQ(text_of_duration(-5), "0.0 s");
  EXPECT_EQ(text_of_duration(449'000'000), "0.4 s");
  EXPECT_EQ(text_of_duration(12 * kSecond), "12 s");
  EXPECT_EQ(text_of_duration(200 * kSecond), "3 min 20 s");
  EXPECT_EQ(text_of_duration(7500 * kSecond), "2 h 5 min");
}

}  // namespace
}  // namespace tessera::analysis
