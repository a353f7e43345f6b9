#include "tessera/base/testing/bench.h"

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/testing/bench_report.h"

namespace tessera::bench {
namespace {

Options quick() { return {.seconds = 0.0}; }

TEST(BenchStatistics, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(summarize({3, 1, 2}).median, 2);
  EXPECT_EQ(summarize({4, 1, 3, 2}).median, 2.5);
  EXPECT_EQ(summarize({7}).median, 7);
  EXPECT_THROW(summarize({}), InvalidArgument);
}

TEST(BenchStatistics, IntervalRanksAreThoseOfTheBinomialTables) {
  // Ranks (1-based, from below) of the 95% interval of the median, from published tables of the sign test.
  const std::pair<std::size_t, std::size_t> table[] = {{5, 1},  {6, 1},  {8, 1},   {9, 2},
                                                       {12, 3}, {20, 6}, {50, 18}, {100, 40}};
  for (const auto& [count, rank] : table) {
    std::vector<double> samples(count);
    std::iota(samples.begin(), samples.end(), 1.0);
    const auto summary = summarize(samples);
    EXPECT_EQ(summary.low, static_cast<double>(rank)) << count << " samples";
    EXPECT_EQ(summary.high, static_cast<double>(count + 1 - rank)) << count << " samples";
  }
}

TEST(BenchStatistics, IntervalCoversTheTrueMedianAsOftenAsItSays) {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> draw(1.0);
  const double truth = std::log(2.0);
  int covered = 0;
  constexpr int kTrials = 2000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> samples(200);
    for (auto& sample : samples) sample = draw(random);
    const auto summary = summarize(samples);
    if (summary.low <= truth && truth <= summary.high) ++covered;
  }
  EXPECT_GE(covered, kTrials * 0.94);
  EXPECT_LE(covered, kTrials * 0.98);
}

TEST(Bench, TakesOursAndReferenceInTurns) {
  std::string order;
  Context context({.samples = 200}, [](const BenchResult&) {});
  const auto result = context.measure({.name = "turns",
                                       .unit = "x",
                                       .ours =
                                           [&] {
                                             order += 'o';
                                             return 1.0;
                                           },
                                       .reference_name = "other",
                                       .reference =
                                           [&] {
                                             order += 'r';
                                             return 2.0;
                                           }});
  EXPECT_EQ(result->ours.samples, 200U);
  EXPECT_EQ(result->reference->samples, 200U);
  EXPECT_TRUE(order.ends_with("orroorro")) << "the order must alternate, so that neither side always comes second";
}

TEST(Bench, StopsAtTheTimeLimitButNotBeforeFiveSamples) {
  Context context(quick(), [](const BenchResult&) {});
  const auto result = context.measure({.name = "short", .unit = "x", .ours = [] { return 1.0; }});
  EXPECT_EQ(result->ours.samples, 5U);
  EXPECT_FALSE(result->reference.has_value());
  EXPECT_FALSE(result->ratio.has_value());
}

TEST(Bench, RatioSaysHowManyTimesBetterOursIs) {
  Context context(quick(), [](const BenchResult&) {});
  const auto time =
      context.measure({.name = "time", .unit = "us", .ours = [] { return 2.0; }, .reference = [] { return 6.0; }});
  EXPECT_DOUBLE_EQ(*time->ratio, 3.0);
  const auto rate =
      context.measure({.name = "rate", .unit = "GB/s", .ours = [] { return 2.0; }, .reference = [] { return 6.0; }});
  EXPECT_DOUBLE_EQ(*rate->ratio, 1.0 / 3.0);
  const auto told = context.measure({.name = "told",
                                     .unit = "hits",
                                     .ours = [] { return 2.0; },
                                     .reference = [] { return 6.0; },
                                     .better = Better::kHigher});
  EXPECT_DOUBLE_EQ(*told->ratio, 1.0 / 3.0);
}

TEST(Bench, ARatioWithoutAReferenceIsMissedAndSaysWhy) {
  Context context(quick(), [](const BenchResult&) {});
  const auto result = context.measure(
      {.name = "alone", .ours = [] { return 1.0; }, .reference_name = "no reference: not there", .must_ratio = 1});
  EXPECT_EQ(result->reference_name, "no reference: not there");
  EXPECT_FALSE(result->reference.has_value());
  EXPECT_FALSE(*result->met());
}

TEST(Bench, BoundsAreJudgedByDirection) {
  Context context(quick(), [](const BenchResult&) {});
  const auto met = [&](const Measurement& what) { return *context.measure(what)->met(); };
  EXPECT_TRUE(met({.name = "a", .ours = [] { return 25.0; }, .must = 25}));
  EXPECT_FALSE(met({.name = "a", .ours = [] { return 25.1; }, .must = 25}));
  EXPECT_FALSE(met({.name = "a", .unit = "GB/s", .ours = [] { return 24.0; }, .must = 25}));
  EXPECT_FALSE(met({.name = "a", .ours = [] { return 1.2; }, .reference = [] { return 1.0; }, .must_ratio = 1 / 1.1}));
  EXPECT_TRUE(met({.name = "a", .ours = [] { return 1.05; }, .reference = [] { return 1.0; }, .must_ratio = 1 / 1.1}));
  EXPECT_FALSE(context.measure({.name = "a", .ours = [] { return 1.0; }})->met().has_value());
}

TEST(Bench, DividesByCallsAndByOperationsInACall) {
  Context context(quick(), [](const BenchResult&) {});
  std::size_t calls = 0;
  std::size_t samples = 0;
  const Measurement what{.name = "n", .per = 10, .ours = [&] { ++calls; }, .calls = 7, .before = [&] { ++samples; }};
  context.measure(what);
  EXPECT_EQ(calls, samples * 7);
  // 10 GB per call: the rate is large on any machine; a call in seconds is small.
  EXPECT_GT(context.measure({.name = "r", .unit = "GB/s", .per = 1e10, .ours = [] {}})->ours.median, 10.0);
  EXPECT_LT(context.measure({.name = "t", .unit = "s", .per = 1e10, .ours = [] {}})->ours.median, 1e-6);
  EXPECT_THROW(context.measure({.name = "bad", .unit = "bananas", .ours = [] {}}), InvalidArgument);
}

TEST(Bench, FilterLeavesRowsOut) {
  Context context({.filter = "pair_*KiB", .seconds = 0}, [](const BenchResult&) {});
  EXPECT_TRUE(context.measure({.name = "pair_64KiB", .ours = [] {}}).has_value());
  EXPECT_FALSE(context.measure({.name = "repair", .ours = [] { ADD_FAILURE(); }}).has_value());
}

TEST(Bench, FilterWithEqualsSignNamesOneRow) {
  Context context({.filter = "=pair", .seconds = 0}, [](const BenchResult&) {});
  EXPECT_TRUE(context.measure({.name = "pair", .ours = [] {}}).has_value());
  EXPECT_FALSE(context.measure({.name = "pair_64KiB", .ours = [] { ADD_FAILURE(); }}).has_value());
  EXPECT_FALSE(context.measure({.name = "=pair", .ours = [] { ADD_FAILURE(); }}).has_value());
}

TEST(Bench, TakesNoMoreSamplesThanAreEnough) {
  Context context({.seconds = 10, .samples = 1}, [](const BenchResult&) {});
  const auto result = context.measure({.name = "one", .ours = []() -> double { return 7; }});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->ours.samples, 1U);
}

TEST(Bench, RunTogetherRunsEveryBodyOnce) {
  std::atomic<int> sum = 0;
  EXPECT_GT(run_together(4, [&](int i) { sum += 1 << (8 * i); }), 0.0);
  EXPECT_EQ(sum.load(), 0x01010101);
}

TEST(MemcpyReference, CopiesEverySize) {
  for (const std::size_t nbytes : {0, 1, 31, 127, 128, 4096, 100001}) {
    std::vector<char> from(nbytes + 1), to(nbytes + 1, '.');
    for (std::size_t i = 0; i < nbytes; ++i) from[i] = static_cast<char>(i * 31 + 7);
    memcpy_reference(to.data(), from.data(), nbytes);
    EXPECT_EQ(std::memcmp(to.data(), from.data(), nbytes), 0) << nbytes;
    EXPECT_EQ(to[nbytes], '.') << "wrote past the end of " << nbytes;
  }
}

TEST(BenchReport, JsonHasTheAgreedFieldsAndNullsWithoutReference) {
  const BenchResult alone{.name = "alone", .unit = "ns", .ours = summarize({1, 2, 3}), .must = 4};
  const BenchResult held{.name = "held",
                         .unit = "ns",
                         .ours = summarize({2}),
                         .reference_name = "memcpy",
                         .reference = summarize({4}),
                         .ratio = 2.0};
  const auto json = nlohmann::json::parse(to_json("device", {{"cpu", "a"}, {"date", "b"}}, {alone, held}));
  EXPECT_EQ(json["suite"], "device");
  EXPECT_EQ(json["machine"]["cpu"], "a");
  const auto& first = json["results"][0];
  EXPECT_EQ(first["value"], 2.0);
  for (const char* field : {"reference", "reference_value", "ratio"}) {
    ASSERT_TRUE(first.contains(field)) << field;
    EXPECT_TRUE(first[field].is_null()) << field;
  }
  EXPECT_EQ(first["met"], true);
  EXPECT_EQ(json["results"][1]["reference"], "memcpy");
  EXPECT_EQ(json["results"][1]["reference_value"], 4.0);
  EXPECT_EQ(json["results"][1]["ratio"], 2.0);
}

TEST(BenchReport, WritesAsideAndRenames) {
  const auto folder = std::filesystem::temp_directory_path() / ("tessera_bench_test_" + std::to_string(getpid()));
  const auto path = (folder / "deep" / "x.json").string();
  write_file(path, "one");
  write_file(path, "two");
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "two");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "deep"), {}), 1) << "the part file must be gone";
  std::filesystem::remove_all(folder);
}

TEST(BenchReport, MachineNamesWhatTheResultsNeed) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : describe_machine()) keys.push_back(key);
  for (const char* key : {"cpu", "cores", "memory", "os", "compiler", "date"}) {
    EXPECT_NE(std::find(keys.begin(), keys.end(), key), keys.end()) << key;
  }
}

}  // namespace
}  // namespace tessera::bench
