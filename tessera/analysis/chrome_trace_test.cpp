// Chrome traces: golden files byte by byte, and the requirements of viewers and analyzers. WRITE_GOLDENS=1 in the
// environment rewrites the golden files.
#include "tessera/analysis/chrome_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <nlohmann/json.hpp>

#include "tessera/analysis/testing/small_evidence.h"
#include "tessera/analysis/testing/trace_rows.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::analysis {
namespace {

using analysis::testing::events;
using analysis::testing::kStart;
using analysis::testing::launch_of;
using analysis::testing::overlap;
using analysis::testing::small_evidence;
using nlohmann::json;
using ::testing::ElementsAre;

struct Written {
  ChromeTrace told;
  std::string text;
  json parsed;
};

Written write(const Evidence& evidence, std::size_t index = 0, const ChromeOptions& options = {}) {
  std::ostringstream out;
  Written written;
  written.told = write_chrome_trace(out, evidence, index, options);
  written.text = out.str();
  written.parsed = json::parse(written.text);
  return written;
}

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void compare_with_golden(const std::string& name, const std::string& bytes) {
  const std::string path = std::string(TESSERA_TREE) + "/tessera/analysis/testdata/" + name;
  if (std::getenv("WRITE_GOLDENS") != nullptr) std::ofstream(path, std::ios::binary) << bytes;
  const std::string golden = content(path);
  ASSERT_FALSE(golden.empty()) << path;
  EXPECT_TRUE(golden == bytes) << name << " differs from what is written now; if that is meant, run this test with "
                               << "WRITE_GOLDENS=1 and look at the difference";
}

TEST(ChromeTrace, IsTheSameBytesAsTheGoldenFiles) {
  const Evidence evidence = small_evidence();
  compare_with_golden("small_rank_0.trace.json", write(evidence, 0).text);
  compare_with_golden("small_rank_1.trace.json", write(evidence, 1).text);
}

TEST(ChromeTrace, HasTheHeaderThatAnalyzersRead) {
  const Written written = write(small_evidence(), 1);
  const json& trace = written.parsed;
  std::smatch rank;  // HTA searches the text this way
  ASSERT_TRUE(std::regex_search(written.text, rank, std::regex(R"("rank":\s+(\d+))")));
  EXPECT_EQ(rank[1], "1");
  EXPECT_EQ(trace.at("schemaVersion"), 1);
  const json& about = trace.at("distributedInfo");
  EXPECT_EQ(about.at("backend"), "shm");
  EXPECT_EQ(about.at("rank"), 1);
  EXPECT_EQ(about.at("world_size"), 3);
  EXPECT_EQ(about.at("pg_count"), 2);
  EXPECT_EQ(
      about.at("pg_config").at(0),
      (json{{"pg_name", "0"}, {"pg_desc", "world"}, {"backend_config", "shm"}, {"pg_size", 2}, {"ranks", {0, 1}}}));
  EXPECT_EQ(about.at("pg_config").at(1).at("ranks"), json({1, 0}));
}

TEST(ChromeTrace, TimesAreMicrosecondsSinceTheEarliestMomentOfAllRanks) {
  Evidence evidence = small_evidence();
  evidence.ranks[1].groups[0].launches[0].asked_ns = kStart - 5000;  // before any event of rank 0
  const json trace = write(evidence, 0).parsed;
  EXPECT_EQ(trace.at("baseTimeNanoseconds"), kStart - 5000);
  const json kernel = events(trace, "cat", "kernel").at(0);
  EXPECT_DOUBLE_EQ(kernel.at("ts"), 12.25 + 5);
  EXPECT_DOUBLE_EQ(kernel.at("dur"), 28);
}

TEST(ChromeTrace, ACollectiveHasTheArgumentsThatAnalyzersRead) {
  const std::vector<json> kernels = events(write(small_evidence(), 0).parsed, "cat", "kernel");
  ASSERT_EQ(kernels.size(), 7U);
  const json& reduced = kernels[0].at("args");
  EXPECT_EQ(reduced.at("Collective name"), "allreduce");
  EXPECT_EQ(reduced.at("In msg nelems"), 1024);
  EXPECT_EQ(reduced.at("Out msg nelems"), 1024);
  EXPECT_EQ(reduced.at("Group size"), 2);
  EXPECT_EQ(reduced.at("dtype"), "Float");
  EXPECT_EQ(reduced.at("Process Group Name"), "0");
  EXPECT_EQ(reduced.at("Process Group Description"), "world");
  EXPECT_EQ(reduced.at("Process Group Ranks"), "[0, 1]");
  EXPECT_EQ(reduced.at("In split size"), "[]");
  EXPECT_EQ(reduced.at("Seq"), 1);
  EXPECT_EQ(reduced.at("stream"), 2);
  EXPECT_EQ(reduced.at("operations"), json({"all_reduce(f32[1024], sum)"}));
  // HTA and others recognize communication this way.
  for (const json& kernel : kernels) {
    EXPECT_TRUE(
        std::regex_match(kernel.at("name").get<std::string>(), std::regex("ncclDevKernel_[A-Za-z0-9_]+\\(.*\\)")))
        << kernel;
  }
  EXPECT_EQ(kernels[0].at("name"), "ncclDevKernel_AllReduce_Sum_f32(tessera shm)");
}

TEST(ChromeTrace, CountsElementsAsEachCollectiveTakesAndGivesThem) {
  Evidence evidence = small_evidence();
  Group& world = evidence.ranks[0].groups[0];
  world.ranks = {0, 1, 2, 3};
  world.launches.clear();
  evidence.ranks[0].groups.resize(1);
  struct Case {
    const char* kind;
    int root;
    std::int64_t in;
    std::int64_t out;
    const char* name;
  };
  const std::vector<Case> cases = {
      {"all_reduce", -1, 5, 5, "allreduce"},
      {"all_gather", -1, 5, 20, "_allgather_base"},
      {"reduce_scatter", -1, 20, 5, "_reduce_scatter_base"},
      {"all_to_all", -1, 20, 20, "all_to_all"},
      {"broadcast", 0, 5, 5, "broadcast"},
      {"scatter", 0, 20, 5, "scatter"},
      {"scatter", 1, 0, 5, "scatter"},
      {"gather", 0, 5, 20, "gather"},
      {"gather", 1, 5, 0, "gather"},
      {"barrier", -1, 0, 0, "barrier"},
  };
  std::int64_t us = 10;
  for (const Case& each : cases) {
    world.launches.push_back(
        launch_of({.kind = each.kind, .dtype = "i8", .count = 5, .root = each.root}, 1, us, us, us, us + 5));
    us += 10;
  }
  const std::vector<json> kernels = events(write(evidence).parsed, "cat", "kernel");
  ASSERT_EQ(kernels.size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const json& args = kernels[i].at("args");
    EXPECT_EQ(args.at("Collective name"), cases[i].name);
    EXPECT_EQ(args.at("In msg nelems"), cases[i].in) << args;
    EXPECT_EQ(args.at("Out msg nelems"), cases[i].out) << args;
    EXPECT_EQ(args.at("dtype"), "Char");
  }
}

TEST(ChromeTrace, WhatTheRecordDoesNotSayIsNotMadeUp) {
  Evidence evidence = small_evidence();
  CollectiveCall& spoilt = evidence.ranks[0].groups[0].launches[1];
  spoilt.operations[0].count = std::int64_t{1} << 62;  // times two ranks it overflows
  evidence.ranks[0].groups[0].launches[2].is_whole = false;
  const std::vector<json> kernels = events(write(evidence).parsed, "cat", "kernel");
  EXPECT_FALSE(kernels[3].at("args").contains("In msg nelems")) << kernels[3];
  EXPECT_FALSE(kernels[1].at("args").contains("Out msg nelems")) << kernels[1];
  const json& uneven = kernels[5].at("args");
  EXPECT_EQ(uneven.at("Collective name"), "all_to_allv");
  EXPECT_FALSE(uneven.contains("In msg nelems"));
  EXPECT_EQ(uneven.at("In split size"), "[...]");
}

TEST(ChromeTrace, CoalescedOperationsOfSeveralDtypesAreCountedInBytes) {
  const json args = events(write(small_evidence()).parsed, "cat", "kernel").at(4).at("args");
  EXPECT_EQ(args.at("Collective name"), "coalesced");
  EXPECT_EQ(args.at("dtype"), "Byte");
  EXPECT_EQ(args.at("In msg nelems"), 4 * 4 + 6);
  EXPECT_EQ(args.at("operations"), json({"all_reduce(f32[4], sum)", "all_reduce(u8[6], max)"}));
}

TEST(ChromeTrace, AMessageNamesItsEndsInTheWorld) {
  const json sent = events(write(small_evidence(), 0).parsed, "cat", "kernel").at(2).at("args");
  EXPECT_EQ(sent.at("Src Rank"), 0);
  EXPECT_EQ(sent.at("Dst Rank"), 1);
  const json received = events(write(small_evidence(), 1).parsed, "cat", "kernel").at(2).at("args");
  EXPECT_EQ(received.at("Src Rank"), 0);
  EXPECT_EQ(received.at("Dst Rank"), 1);
}

TEST(ChromeTrace, StatesAreNestedSlicesAndFlowsLeadFromTheAskingThread) {
  const json trace = write(small_evidence()).parsed;
  const std::vector<json> kernels = events(trace, "cat", "kernel");
  const std::vector<json> waits = events(trace, "name", "wait for others");
  const std::vector<json> moves = events(trace, "name", "move bytes");
  ASSERT_EQ(waits.size(), 7U);
  ASSERT_EQ(moves.size(), 6U) << "one has not met";
  EXPECT_EQ(waits[0].at("ts"), kernels[0].at("ts"));
  EXPECT_DOUBLE_EQ(waits[0].at("dur"), 3);
  EXPECT_DOUBLE_EQ(moves[0].at("dur"), 25);
  EXPECT_EQ(waits[0].at("tid"), kernels[0].at("tid"));
  const std::vector<json> starts = events(trace, "ph", "s");
  const std::vector<json> ends = events(trace, "ph", "f");
  ASSERT_EQ(starts.size(), 6U) << "not for a replay, nor for what never began";
  ASSERT_EQ(ends.size(), starts.size());
  for (std::size_t i = 0; i < starts.size(); ++i) {
    EXPECT_EQ(starts[i].at("id"), ends[i].at("id"));
    EXPECT_EQ(starts[i].at("tid"), 4243);
    EXPECT_EQ(ends[i].at("bp"), "e");
    EXPECT_LE(starts[i].at("ts"), ends[i].at("ts"));
  }
  EXPECT_EQ(starts[0].at("id"), kernels[0].at("args").at("correlation"));
}

TEST(ChromeTrace, WhatHasNotEndedReachesToWhereTheRankWasLastSeen) {
  Evidence evidence = small_evidence();
  const auto last = [&] { return events(write(evidence).parsed, "cat", "kernel").back(); };
  EXPECT_EQ(last().at("args").at("state"), "waits for others");
  EXPECT_DOUBLE_EQ(last().at("dur"), 399) << "to the time of reading: it runs";
  evidence.ranks[0].state = RankState::kDied;
  EXPECT_DOUBLE_EQ(last().at("dur"), 9) << "to its last record: it is gone";
  const std::vector<json> queued = events(write(evidence).parsed, "cat", "queued");
  ASSERT_EQ(queued.size(), 2U);
  EXPECT_EQ(queued[0].at("name"), "barrier, not begun");
  EXPECT_EQ(queued[0].at("ph"), "b");
  EXPECT_EQ(queued[1].at("ph"), "e");
}

TEST(ChromeTrace, RowsAreNamedAndMarksAndStateAreShown) {
  const json trace = write(small_evidence(), 0).parsed;
  std::vector<std::string> names;
  for (const json& event : events(trace, "ph", "M")) {
    if (event.at("args").contains("name")) names.push_back(event.at("args").at("name"));
  }
  EXPECT_THAT(names, ElementsAre("rank 0", "rank 0, host", "rank 0, cuda:0", "stream 2", "stream 3", "stream 7",
                                 "thread 4243", "loader"));
  const std::vector<json> annotations = events(trace, "cat", "user_annotation");
  ASSERT_EQ(annotations.size(), 2U);
  EXPECT_EQ(annotations[0].at("name"), "step 117");
  EXPECT_EQ(annotations[0].at("tid"), 4243);
  EXPECT_EQ(annotations[1].at("name"), "forward\n 2");
  EXPECT_EQ(events(trace, "ph", "C").at(0).at("args").at("live_nbytes"), 1000);
  const json died = write(small_evidence(), 1).parsed;
  EXPECT_EQ(events(died, "name", "rank 1 died").at(0).at("args").at("signal"), 9);
  EXPECT_EQ(events(died, "name", "[OutOfMemory]").at(0).at("args").at("Bytes"), 1 << 30);
}

TEST(ChromeTrace, SlicesOfARowNeverOverlap) {
  Evidence evidence = small_evidence();
  EXPECT_EQ(overlap(write(evidence).parsed), "");
  // Two groups of one stream whose records overlap, enqueued at the same moment, next to an annotation.
  Group& world = evidence.ranks[0].groups[0];
  for (int i = 0; i < 200; ++i) {
    world.launches.push_back(launch_of({.kind = "barrier"}, 1, 200 + i / 2, 201 + i, 202 + i, 205 + 3 * i));
  }
  evidence.ranks[0].annotations.push_back({"short", 1, "4243", world.launches[20].asked_ns + 300});
  const json trace = write(evidence).parsed;
  EXPECT_EQ(overlap(trace), "");
  EXPECT_FALSE(events(trace, "ph", "M").empty());
  EXPECT_NE(trace.dump().find("stream 2, beside 1"), std::string::npos);
}

TEST(ChromeTrace, GroupsHaveOneNumberOnAllRanks) {
  Evidence evidence = small_evidence();
  std::swap(evidence.ranks[1].groups[0], evidence.ranks[1].groups[1]);
  const json trace = write(evidence, 1).parsed;
  EXPECT_EQ(trace.at("distributedInfo").at("pg_config").at(0).at("pg_desc"), "pipeline");
  EXPECT_EQ(trace.at("distributedInfo").at("pg_config").at(0).at("pg_name"), "1");
}

TEST(ChromeTrace, LongListsOfRanksAreCutAsTheProfilerCutsThem) {
  Evidence evidence = small_evidence();
  Group& world = evidence.ranks[0].groups[0];
  for (int rank = 2; rank < 64; ++rank) world.ranks.push_back(rank);
  const json trace = write(evidence).parsed;
  const std::string ranks = events(trace, "cat", "kernel").at(0).at("args").at("Process Group Ranks");
  EXPECT_TRUE(ranks.ends_with(", 28, 29, ...]")) << ranks;
  EXPECT_EQ(trace.at("distributedInfo").at("pg_config").at(0).at("ranks").size(), 64U);
}

TEST(ChromeTrace, AFullFileIsClosedInOrderAndSaysWhatWasLeftOut) {
  Evidence evidence = small_evidence();
  Group& world = evidence.ranks[0].groups[0];
  for (int i = 0; i < 300; ++i) {
    world.launches.push_back(launch_of({.kind = "barrier"}, 6, 200 + 4 * i, 201 + 4 * i, 202 + 4 * i, 203 + 4 * i));
  }
  const Written whole = write(evidence);
  EXPECT_EQ(whole.told.left_out, 0U);
  EXPECT_EQ(whole.told.nbytes, whole.text.size());
  EXPECT_TRUE(events(whole.parsed, "name", "tessera_left_out").empty());
  for (const std::uint64_t max : {20'000u, 100'000u, 100'001u, 200'000u}) {
    const Written cut = write(evidence, 0, {.max_nbytes = max});
    EXPECT_LE(cut.text.size(), max);
    EXPECT_GT(cut.text.size(), max - 3000) << "the room is used";
    EXPECT_EQ(cut.told.nbytes, cut.text.size());
    EXPECT_EQ(cut.told.events + cut.told.left_out, whole.told.events);
    const std::vector<json> said = events(cut.parsed, "name", "tessera_left_out");
    ASSERT_EQ(said.size(), 1U);
    EXPECT_EQ(said[0].at("ph"), "M");
    EXPECT_EQ(said[0].at("args").at("events"), cut.told.left_out);
    EXPECT_EQ(said[0].at("args").at("of"), whole.told.events);
    EXPECT_EQ(events(cut.parsed, "cat", "kernel").back(), events(whole.parsed, "cat", "kernel").back())
        << "the latest is kept";
  }
  const Written exact = write(evidence, 0, {.max_nbytes = whole.text.size() + 400});
  EXPECT_EQ(exact.told.left_out, 0U);
  expect_error<InvalidArgument>([&] { (void)write(evidence, 0, {.max_nbytes = 500}); },
                                {"rank 0", "the size limit must be at least", "got 500"});
}

TEST(ChromeTrace, AStreamThatFailsAndARankThatIsNotThereAreErrors) {
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  const Evidence evidence = small_evidence();
  expect_error<IoError>([&] { (void)write_chrome_trace(out, evidence, 0); }, {"rank 0"});
  expect_error<InvalidArgument>([&] { (void)write(evidence, 3); }, {"rank must be in [0, 3), got 3"});
}

TEST(ChromeTrace, FilesAreOneForEachRankThatLeftSomething) {
  char name[] = "/tmp/tessera_chrome_XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string directory = name;
  const std::vector<ChromeTrace> traces = write_chrome_traces(small_evidence(), directory);
  ASSERT_EQ(traces.size(), 2U);
  EXPECT_EQ(traces[1].path, directory + "/trace_rank_1.json");
  EXPECT_EQ(content(traces[1].path), write(small_evidence(), 1).text);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory), {}), 2) << "nothing is left aside";
  expect_error<IoError>([&] { (void)write_chrome_traces(small_evidence(), directory + "/none"); }, {"/none"});
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace tessera::analysis
