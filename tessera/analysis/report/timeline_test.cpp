// Spans of ranks, their pyramid, and the table of collectives, compared with the records.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>

#include "tessera/analysis/read_run.h"
#include "tessera/analysis/report/detail/collective_table.h"
#include "tessera/analysis/report/detail/spans.h"
#include "tessera/analysis/report/detail/timeline_pack.h"
#include "tessera/analysis/report/testing/made_run.h"
#include "tessera/analysis/testing/evidence_builder.h"
#include "tessera/analysis/testing/timed_record.h"

namespace tessera::analysis {
namespace {

using detail::Lane;
using detail::LaneKind;
using detail::PageJson;
using detail::Span;
using detail::Spans;
using testing::all_gather;
using testing::all_reduce;
using testing::EvidenceBuilder;

const Lane* lane_of(const Spans& spans, int rank, LaneKind kind) {
  for (const Lane& lane : spans.lanes) {
    if (lane.rank == rank && lane.kind == kind) return &lane;
  }
  return nullptr;
}

std::string from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t word = 0;
  int bits = 0;
  for (const char each : text) {
    if (each == '=') break;
    word = word << 6 | static_cast<std::uint32_t>(digits.find(each));
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(word >> bits & 0xFF);
  }
  return bytes;
}

template <class Number>
Number number_at(const std::string& bytes, std::size_t offset, std::size_t index) {
  Number number{};
  std::memcpy(&number, bytes.data() + offset + index * sizeof(Number), sizeof number);
  return number;
}

// A lane with these spans, in nanoseconds.
Spans spans_with(std::vector<Span> list) {
  Spans spans;
  spans.names.number_of("a");
  spans.names.number_of("b");
  spans.lanes.push_back({.rank = 3, .kind = LaneKind::kCompute, .spans = std::move(list)});
  return spans;
}

// Run directories of ranks that wrote records.
class Timeline : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "timeline_XXXXXX";
    directory = ::mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(directory); }
  [[nodiscard]] Evidence read(testing::MadeRun run) const {
    run.has_tables = run.has_summary = false;
    testing::make_run(directory, run);
    return read_run(directory, {.last_launches = std::size_t{1} << 30});
  }

  std::string directory;
};

TEST_F(Timeline, HasEveryMarkKernelAndCollectiveOfTheRecords) {
  const Spans spans = detail::spans_of(read({.ranks = 2, .steps = 5, .collectives = 3, .kernels = 4}));
  EXPECT_TRUE(spans.has_kernels);
  for (const int rank : {0, 1}) {
    const Lane* annotations = lane_of(spans, rank, LaneKind::kMark);
    const Lane* kernels = lane_of(spans, rank, LaneKind::kCompute);
    const Lane* moves = lane_of(spans, rank, LaneKind::kCollective);
    ASSERT_TRUE(annotations != nullptr && kernels != nullptr && moves != nullptr);
    EXPECT_EQ(annotations->spans.size(), 5U);
    EXPECT_EQ(spans.names.names()[annotations->spans[2].name], "step 3");
    EXPECT_EQ(kernels->spans.size(), 20U);
    EXPECT_FALSE(kernels->is_derived);
    EXPECT_EQ(spans.names.names()[kernels->spans[0].name], "layer");
    EXPECT_EQ(moves->spans.size(), 15U);
    EXPECT_EQ(spans.names.names()[moves->spans[0].name], "all_reduce(f32[1024], sum) in world");
    // A step takes 50 ms, and the annotation covers 47.5 of them.
    EXPECT_NEAR(static_cast<double>(annotations->spans[2].end_ns - annotations->spans[2].begin_ns), 47.5e6, 1e6);
  }
}

TEST_F(Timeline, WithoutKernelsComputeIsTheRestOfTheStepAndSaysSo) {
  const Spans spans = detail::spans_of(read({.ranks = 2, .steps = 2, .collectives = 2}));
  const Lane* compute = lane_of(spans, 0, LaneKind::kCompute);
  ASSERT_NE(compute, nullptr);
  EXPECT_TRUE(compute->is_derived);
  const Lane* moves = lane_of(spans, 0, LaneKind::kCollective);
  const Lane* waits = lane_of(spans, 0, LaneKind::kWait);
  ASSERT_TRUE(moves != nullptr && waits != nullptr);
  double rest = 0;
  for (const Span& each : compute->spans) rest += static_cast<double>(each.end_ns - each.begin_ns);
  double comm = 0;
  for (const Lane* lane : {moves, waits})
    for (const Span& each : lane->spans) comm += static_cast<double>(each.end_ns - each.begin_ns);
  EXPECT_NEAR(rest + comm, 2 * 47.5e6, 2e6);
}

TEST_F(Timeline, WaitsAreExposedWhereNoKernelRuns) {
  // Kernels cover three quarters of the step in four parts; the waits of rank 0 are inside and outside of them.
  const Evidence evidence = read({.ranks = 2, .steps = 1, .collectives = 16, .kernels = 2});
  const Spans spans = detail::spans_of(evidence);
  const Lane* waits = lane_of(spans, 0, LaneKind::kWait);
  const Lane* kernels = lane_of(spans, 0, LaneKind::kCompute);
  ASSERT_TRUE(waits != nullptr && kernels != nullptr);
  EXPECT_LT(waits->spans.size(), 16U) << "those inside of kernels are hidden";
  for (const Span& wait : waits->spans) {
    for (const Span& kernel : kernels->spans) {
      EXPECT_TRUE(wait.end_ns <= kernel.begin_ns || wait.begin_ns >= kernel.end_ns);
    }
  }
}

TEST_F(Timeline, WaitsThatOverlapStandInOrderWhereKernelsCutThem) {
  Evidence evidence = read({.ranks = 2, .steps = 1, .collectives = 4, .kernels = 8});
  std::vector<CollectiveCall>& launches = evidence.ranks[0].groups[0].launches;
  for (std::size_t i = 0; i < launches.size(); ++i) {  // all wait until the last has arrived
    launches[i].begun_ns = launches[0].begun_ns + static_cast<std::int64_t>(i) * 1'000'000;
    launches[i].met_ns = launches.back().met_ns;
    launches[i].ended_ns = launches.back().ended_ns;
  }
  std::size_t waits = 0;
  for (const Lane& lane : detail::spans_of(evidence).lanes) {
    EXPECT_TRUE(std::ranges::is_sorted(lane.spans, {}, &Span::begin_ns)) << to_string(lane.kind);
    waits += lane.rank == 0 && lane.kind == LaneKind::kWait ? lane.spans.size() : 0;
  }
  EXPECT_GT(waits, 4U) << "kernels cut them";
}

// Records of one rank at chosen times, as "name 10-20" in microseconds.
class TimelineOfRecord : public ::testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> compute_of(const Spans& spans) const {
    std::vector<std::string> found;
    for (const Lane& lane : spans.lanes) {
      if (lane.kind != LaneKind::kCompute) continue;
      for (const Span& each : lane.spans)
        found.push_back(spans.names.names()[each.name] + " " + us(each.begin_ns) + "-" + us(each.end_ns));
    }
    return found;
  }
  [[nodiscard]] std::string us(std::int64_t ns) const { return std::to_string((ns - record.wall_ns(0) + 500) / 1000); }
  [[nodiscard]] static double exposed_us(const Evidence& evidence, const Spans& spans) {
    return detail::collectives_json(evidence, spans)[0]["exposed_seconds"].get<double>() * 1e6;
  }

  testing::TimedRecord record;
};

TEST_F(TimelineOfRecord, TheLaunchOfACollectiveHidesNothing) {
  record.mark_begin(0, "step", 1, 0);
  record.kernel(10, 20, "matmul");
  const std::uint64_t own = record.launch(21, "whatever it is called");
  record.collective(comm::OpKind::kAllReduce, 21, 30, 60);
  record.kernel(40, 50, "beside", 2);
  record.launch_end(61, own);
  record.kernel(62, 70, "after");
  record.mark_end(100, "step", 1, 0);
  const Evidence evidence = read_record(record.path());
  const Spans spans = detail::spans_of(evidence);
  EXPECT_EQ(compute_of(spans), (std::vector<std::string>{"matmul 10-20", "beside 40-50", "after 62-70"}));
  EXPECT_NEAR(exposed_us(evidence, spans), 20, 1) << "30, less what ran on another stream";
  EXPECT_TRUE(spans.has_kernels);
  EXPECT_FALSE(spans.has_rest || spans.has_graphs);
}

TEST_F(TimelineOfRecord, WhereRecordsWereOverwrittenNoComputeIsDrawn) {
  record.mark_begin(0, "step", 1, 0);
  record.mark_end(5, "step", 1, 0);
  record.mark_begin(5, "step", 2, 0);
  record.collective(comm::OpKind::kAllReduce, 10, 20, 50);
  record.mark_end(100, "step", 2, 0);
  Evidence evidence = read_record(record.path());
  EXPECT_EQ(detail::spans_of(evidence).start_ns, 0);
  evidence.ranks[0].lost = 1;
  const Spans spans = detail::spans_of(evidence);
  EXPECT_EQ(compute_of(spans), (std::vector<std::string>{"rest of the step 10-20", "rest of the step 50-100"}));
  EXPECT_GT(spans.start_ns, 0);
  for (const Lane& lane : spans.lanes)
    EXPECT_EQ(lane.since_ns > 0, lane.kind != LaneKind::kMark) << to_string(lane.kind);
}

TEST_F(Timeline, EachLaneTellsSinceWhenItsRecordsRemain) {
  const Evidence evidence = read(testing::overwritten_records());
  const Spans spans = detail::spans_of(evidence);
  const Lane* const compute = lane_of(spans, 0, LaneKind::kCompute);
  const Lane* const collectives = lane_of(spans, 0, LaneKind::kCollective);
  ASSERT_TRUE(compute != nullptr && collectives != nullptr);
  EXPECT_GT(compute->since_ns, collectives->since_ns) << "marks and kernels share a ring, which holds fewer steps";
  EXPECT_EQ(compute->since_ns, lane_of(spans, 0, LaneKind::kMark)->since_ns);
  EXPECT_GE(compute->spans.front().begin_ns, compute->since_ns) << "no compute where kernels were overwritten";
  const auto packed = detail::pack_timeline(spans, 1'000'000).json;
  for (const auto& lane : packed.at("lanes")) {
    if (lane.at("kind") == "compute") {
      EXPECT_GT(lane.at("no_data"), 0);
    }
  }
}

TEST_F(TimelineOfRecord, WhereNoKernelWasRecordedComputeIsTheRestOfTheStep) {
  record.mark_begin(0, "step", 1, 0);
  record.collective(comm::OpKind::kAllReduce, 10, 20, 50);
  record.mark_end(100, "step", 1, 0);
  record.mark_begin(100, "step", 2, 0);
  record.kernel(110, 120, "matmul");
  record.mark_end(200, "step", 2, 0);
  const Spans spans = detail::spans_of(read_record(record.path()));
  EXPECT_EQ(compute_of(spans),
            (std::vector<std::string>{"rest of the step 0-20", "rest of the step 50-100", "matmul 110-120"}));
  EXPECT_TRUE(spans.has_kernels && spans.has_rest);
}

TEST_F(TimelineOfRecord, OfAReplayComputeIsWhatIsLeftOfItOutsideOfCollectives) {
  record.mark_begin(0, "step", 1, 0);
  record.collective(comm::OpKind::kAllReduce, 10, 30, 60);
  record.replay(10, 90, 2);
  record.mark_end(100, "step", 1, 0);
  const Evidence evidence = read_record(record.path());
  const Spans spans = detail::spans_of(evidence);
  EXPECT_EQ(compute_of(spans), (std::vector<std::string>{"graph 10-30", "graph 60-90"}));
  EXPECT_NEAR(exposed_us(evidence, spans), 30, 1);
  EXPECT_TRUE(spans.has_graphs);
}

TEST(TimelineOfEvidence, ALaunchThatWaitsIsDrawnToWhereTheRunWasRead) {
  EvidenceBuilder run(2);
  run.everyone(all_reduce(8));
  run.launch(0, all_reduce(8), Stage::kBegun);
  run.pass(5);
  const Spans spans = detail::spans_of(run.evidence());
  const Lane* waits = lane_of(spans, 0, LaneKind::kWait);
  ASSERT_NE(waits, nullptr);
  EXPECT_EQ(waits->spans.back().end_ns, run.evidence().taken_ns);
  EXPECT_EQ(lane_of(spans, 1, LaneKind::kWait)->spans.size(), 1U);
}

TEST(TimelineOfEvidence, LaunchesThatOverlapStandBesideEachOther) {
  EvidenceBuilder run(1);
  run.everyone(all_reduce(8), 5);
  const std::int64_t first = run.group(0).launches[0].begun_ns;
  std::int64_t at = first;
  for (CollectiveCall& launch : run.group(0).launches) {  // each ends when the second after it has started
    launch.begun_ns = launch.met_ns = at;
    launch.ended_ns = at + 2500;
    at += 1000;
  }
  const Spans spans = detail::spans_of(run.evidence());
  std::vector<std::vector<std::int64_t>> begins;
  for (const Lane& lane : spans.lanes) {
    ASSERT_EQ(lane.kind, LaneKind::kCollective);
    EXPECT_EQ(lane.depth, begins.size());
    begins.emplace_back();
    for (const Span& each : lane.spans) begins.back().push_back((each.begin_ns - first) / 1000);
  }
  EXPECT_EQ(begins, (std::vector<std::vector<std::int64_t>>{{0, 3}, {1, 4}, {2}}));
}

TEST(TimelineOfEvidence, MomentsThatCannotBeAreLeftOut) {
  EvidenceBuilder run(1);
  run.everyone(all_reduce(8), 3);
  Evidence evidence = run.evidence();
  evidence.taken_ns = 1'700'000'000'000'000'000;
  std::int64_t at = evidence.taken_ns - 1'000'000'000;
  for (CollectiveCall& launch : evidence.ranks[0].groups[0].launches) {
    launch.begun_ns = at;
    launch.met_ns = at + 10;
    launch.ended_ns = at + 20;
    at += 1000;
  }
  evidence.ranks[0].groups[0].launches[0].ended_ns = std::numeric_limits<std::int64_t>::max();
  evidence.ranks[0].groups[0].launches[1].begun_ns = 5;
  const Spans spans = detail::spans_of(evidence);
  EXPECT_EQ(lane_of(spans, 0, LaneKind::kCollective)->spans.size(), 2U);
  EXPECT_EQ(lane_of(spans, 0, LaneKind::kWait)->spans.size(), 2U);
  EXPECT_LT(detail::pack_timeline(spans, 100).json["span_ns"].get<std::int64_t>(), 1'000'000'000);
}

TEST(TimelinePack, ArraysHoldEverySpanAtItsPlace) {
  const auto packed = detail::pack_timeline(spans_with({{1000, 1400, 0}, {1500, 1600, 1}, {1700, 2000, 0}}), 100);
  EXPECT_EQ(packed.events, 3U);
  EXPECT_EQ(packed.json["begin_ns"], "1000");
  EXPECT_EQ(packed.json["span_ns"], 1000);
  EXPECT_EQ(packed.json["unit_ns"], 1);
  const PageJson& lane = packed.json["lanes"][0];
  EXPECT_EQ(lane["rank"], 3);
  EXPECT_EQ(lane["kind"], "compute");
  EXPECT_EQ(lane["count"], 3);
  const std::string bytes = from_base64(packed.base64);
  EXPECT_EQ(number_at<std::uint32_t>(bytes, lane["begin"], 1), 500U);
  EXPECT_EQ(number_at<std::uint32_t>(bytes, lane["length"], 1), 100U);
  EXPECT_EQ(number_at<std::uint16_t>(bytes, lane["name"], 1), 1U);
  EXPECT_EQ(number_at<std::uint32_t>(bytes, lane["begin"], 2), 700U);
}

TEST(TimelinePack, BinsOfEveryLevelSayHowBusyTheLaneWas) {
  std::vector<Span> list;
  for (int i = 0; i < 4096; ++i) list.push_back({1 + i * 100, 1 + i * 100 + (i < 2048 ? 100 : 25), 0});
  list.back().end_ns = 1 + 409'600;
  const auto packed = detail::pack_timeline(spans_with(list), 10'000);
  const std::string bytes = from_base64(packed.base64);
  const PageJson& levels = packed.json["lanes"][0]["levels"];
  ASSERT_EQ(levels.size(), 4U);
  EXPECT_EQ(levels[0]["bins"], 2048);
  EXPECT_EQ(levels[3]["bins"], 256);
  for (const PageJson& level : levels) {
    const std::size_t bins = level["bins"];
    EXPECT_EQ(number_at<std::uint8_t>(bytes, level["offset"], bins / 4), 255U) << bins;
    EXPECT_NEAR(number_at<std::uint8_t>(bytes, level["offset"], bins * 3 / 4), 64, 2) << bins;
  }
}

TEST(TimelinePack, SpansThatOverlapAreCountedOnceInABin) {
  // Half of the first of 256 bins, several times over.
  std::vector<Span> list;
  for (int i = 0; i < 100; ++i) list.push_back({1000 + i, 1500 + (i == 0 ? 0 : i - 100), 0});
  list.push_back({256'999, 257'000, 0});
  const auto packed = detail::pack_timeline(spans_with(list), 10'000);
  const std::string bytes = from_base64(packed.base64);
  const PageJson& top = packed.json["lanes"][0]["levels"].back();
  EXPECT_NEAR(number_at<std::uint8_t>(bytes, top["offset"], 0), 127, 1);
  EXPECT_EQ(number_at<std::uint8_t>(bytes, top["offset"], 128), 0U);
}

TEST(TimelinePack, KeepsTheLatestWhereThereIsNoRoomAndStillDrawsAllFromAfar) {
  std::vector<Span> list;
  for (int i = 0; i < 1000; ++i) list.push_back({1 + i * 100, 51 + i * 100, 0});
  const auto packed = detail::pack_timeline(spans_with(list), 100);
  EXPECT_EQ(packed.events, 100U);
  EXPECT_EQ(packed.left_out, 900U);
  const std::string bytes = from_base64(packed.base64);
  const PageJson& lane = packed.json["lanes"][0];
  EXPECT_EQ(number_at<std::uint32_t>(bytes, lane["begin"], 0), 90'000U);
  EXPECT_GT(number_at<std::uint8_t>(bytes, lane["levels"].back()["offset"], 3), 100U);
}

TEST(TimelinePack, LongRunsHaveLargerUnits) {
  const std::int64_t hour = 3'600'000'000'000;
  const auto packed =
      detail::pack_timeline(spans_with({{1000, 1000 + hour, 0}, {1000 + hour, 1000 + 10 * hour, 1}}), 100);
  const std::int64_t unit = packed.json["unit_ns"];
  EXPECT_GT(unit, 1);
  const std::string bytes = from_base64(packed.base64);
  const PageJson& lane = packed.json["lanes"][0];
  const double begin = number_at<std::uint32_t>(bytes, lane["begin"], 1) * static_cast<double>(unit);
  EXPECT_NEAR(begin, static_cast<double>(hour), static_cast<double>(2 * unit));
}

TEST(TimelinePack, NothingIsNull) {
  EXPECT_EQ(detail::pack_timeline({}, 100).json, nullptr);
  EXPECT_EQ(detail::to_base64(""), "");
  EXPECT_EQ(detail::to_base64("f"), "Zg==");
  EXPECT_EQ(detail::to_base64("fo"), "Zm8=");
  EXPECT_EQ(detail::to_base64("foobar"), "Zm9vYmFy");
}

TEST(NameTable, KeepsEachNameOnceAndStopsAtABound) {
  detail::NameTable names;
  EXPECT_EQ(names.number_of("x"), names.number_of("x"));
  for (int i = 0; i < 30'000; ++i) names.number_of("name " + std::to_string(i));
  EXPECT_LE(names.names().size(), 20'001U);
  EXPECT_EQ(names.names()[names.number_of("yet another")], "(other)");
  EXPECT_EQ(names.names()[names.number_of("x")].size(), std::string("(other)").size()) << "no number is out of range";
  detail::NameTable more;
  EXPECT_EQ(more.names().size(), 0U);
  EXPECT_LE(more.names()[more.number_of(std::string(5000, 'z'))].size(), 160U);
  EXPECT_EQ(more.names()[more.number_of("\x1b[2J\xff")], "\\x1b[2J\\xff");
}

TEST(CollectiveTable, CountsACollectiveOnceAndItsBytesAsARankSeesThem) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(1024), 16);
  run.everyone(all_gather(1000), 2);
  const Evidence evidence = run.evidence();
  const PageJson rows = detail::collectives_json(evidence, detail::spans_of(evidence));
  ASSERT_EQ(rows.size(), 2U);
  const PageJson& reduce = rows[0];
  EXPECT_EQ(reduce["operation"], "all_reduce");
  EXPECT_EQ(reduce["group"], "world");
  EXPECT_EQ(reduce["members"], "ranks 0-3");
  EXPECT_EQ(reduce["count"], 16);
  EXPECT_EQ(reduce["nbytes"], 16 * 4096.0);
  // Over the last millisecond of each, when all had arrived: 2 x 3/4 of its bytes.
  EXPECT_DOUBLE_EQ(reduce["bus_bandwidth"].get<double>(), 4096 * 1.5 / 1e-3);
  // Two milliseconds of each launch, on four ranks.
  EXPECT_DOUBLE_EQ(reduce["exposed_seconds"].get<double>(), 16 * 4 * 2e-3);
  EXPECT_DOUBLE_EQ(reduce["wait_seconds"].get<double>(), 16 * 4 * 1e-3);
  EXPECT_EQ(rows[1]["operation"], "all_gather");
  EXPECT_EQ(rows[1]["nbytes"], 2 * 16'000.0);
  EXPECT_DOUBLE_EQ(rows[1]["bus_bandwidth"].get<double>(), 16'000 * 0.75 / 1e-3);
}

TEST(CollectiveTable, SkewIsFromTheFirstRankThatCameToTheLast) {
  EvidenceBuilder run(3);
  run.everyone(all_reduce(8), 3);
  for (int rank = 0; rank < 3; ++rank) {
    for (std::size_t i = 0; i < 3; ++i) {
      CollectiveCall& launch = run.group(rank).launches[i];
      launch.begun_ns -= rank == 1 ? static_cast<std::int64_t>(i + 1) * 100'000 : 0;
    }
  }
  const PageJson rows = detail::collectives_json(run.evidence(), {});
  EXPECT_DOUBLE_EQ(rows[0]["skew_median"].get<double>(), 2e-4);
  EXPECT_DOUBLE_EQ(rows[0]["skew_most"].get<double>(), 3e-4);
}

TEST(CollectiveTable, NoSkewWhereARankIsNotKnown) {
  EvidenceBuilder run(3);
  run.everyone(all_reduce(8), 1);
  run.group(2).launches.clear();
  EXPECT_EQ(detail::collectives_json(run.evidence(), {})[0]["skew_median"], nullptr);
}

TEST(CollectiveTable, KernelsThatRunMeanwhileAreNotExposed) {
  EvidenceBuilder run(2);
  run.everyone(all_reduce(8), 1);
  const CollectiveCall& launch = run.group(0).launches[0];
  Spans spans;
  spans.has_kernels = true;
  spans.kernels[0] = {{launch.begun_ns - 500'000, launch.begun_ns + 500'000, 0},
                      {launch.begun_ns + 1'000'000, launch.begun_ns + 1'250'000, 0}};
  const PageJson rows = detail::collectives_json(run.evidence(), spans);
  EXPECT_DOUBLE_EQ(rows[0]["exposed_seconds"].get<double>(), 2 * 2e-3 - 0.75e-3);
}

}  // namespace
}  // namespace tessera::analysis
