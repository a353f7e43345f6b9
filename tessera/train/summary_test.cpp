#include "tessera/train/summary.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/train/predict.h"

namespace tessera::train {
namespace {

using Json = nlohmann::json;

RunSummary two_ranks() {
  Config config;
  config.mesh.tp = 2;
  return {.config = resolved(config, 2),
          .directory = "/runs/a",
          .world_size = 2,
          .parameters = 1000,
          .steps = 5,
          .skipped_spike = 1,
          .tokens = 500,
          .first_loss = 5.5,
          .last_loss = 2.5,
          .evaluations = {{.step = 3, .loss = 3}, {.step = 5, .loss = 2.25}},
          .bigram_entropy = 2.5,
          .ranks = {{.rank = 0,
                     .rate_p50 = 100,
                     .rate_p99 = 80,
                     .seconds = 8,
                     .exposed_seconds = 1,
                     .peak = {{"parameters", 100}, {"total", 300}},
                     .predicted = {{"total", 310}}},
                    {.rank = 1,
                     .rate_p50 = 140,
                     .rate_p99 = 90,
                     .seconds = 8,
                     .exposed_seconds = 3,
                     .peak = {{"parameters", 200}, {"total", 400}}}}};
}

TEST(RankTally, RatesAreThoseThatSharesOfTheStepsReached) {
  RankTally tally(2);
  for (int step = 1; step <= 100; ++step)
    tally.add({.step = step, .seconds = static_cast<double>(step), .exposed_seconds = 0.5, .tokens = 200});
  const RankNumbers numbers = tally.numbers(3);
  EXPECT_EQ(numbers.rank, 3);
  EXPECT_DOUBLE_EQ(numbers.rate_p50, 100.0 / 50) << "half of the steps took 50 s or less; 100 tokens are this rank's";
  EXPECT_DOUBLE_EQ(numbers.rate_p99, 100.0 / 99);
  EXPECT_DOUBLE_EQ(numbers.seconds, 5050);
  EXPECT_DOUBLE_EQ(numbers.exposed_seconds, 50);
}

TEST(RankTally, OfOneStepAndOfNone) {
  RankTally tally(1);
  EXPECT_EQ(tally.numbers(0).rate_p99, 0);
  tally.add({.step = 1, .seconds = 2, .tokens = 8});
  EXPECT_EQ(tally.numbers(0).rate_p50, 4);
  EXPECT_EQ(tally.numbers(0).rate_p99, 4);
}

TEST(RankNumbers, TravelAsText) {
  const RankNumbers sent = two_ranks().ranks[0];
  EXPECT_EQ(to_text(rank_numbers(to_text(sent))), to_text(sent));
  EXPECT_EQ(rank_numbers(to_text(sent)).peak[1].nbytes, 300);
  expect_error<MismatchError>([] { (void)rank_numbers("{}"); }, {"same build"});
}

TEST(RunSummary, JsonSaysAllOfIt) {
  const RunSummary summary = two_ranks();
  const Json json = Json::parse(to_json(summary));
  EXPECT_EQ(json.at("end"), "done");
  EXPECT_FALSE(json.contains("reason"));
  EXPECT_EQ(json.at("configuration").at("hash"), hash_of(summary.config));
  EXPECT_EQ(json.at("mesh").at("tp"), 2);
  EXPECT_EQ(json.at("steps"), 5);
  EXPECT_EQ(json.at("skipped").at("spike"), 1);
  EXPECT_EQ(json.at("loss_curve"), "loss.csv");
  EXPECT_EQ(json.at("held_out").at("loss"), 2.25);
  EXPECT_EQ(json.at("held_out").at("bigram_entropy"), 2.5);
  EXPECT_EQ(json.at("tokens_per_second"), 240);
  EXPECT_EQ(json.at("exposed_communication").at("share"), 0.25);
  EXPECT_EQ(json.at("ranks").at(1).at("tokens_per_second").at("p99"), 90);
  EXPECT_EQ(json.at("ranks").at(0).at("peak_memory").at("parameters"), 100);
  const Flops token = flops_per_token(summary.config.model);
  EXPECT_EQ(json.at("flops").at("per_token").at("causal"), token.causal);
  EXPECT_DOUBLE_EQ(json.at("flops").at("per_second_and_rank").at("full"), token.full * 120);
}

TEST(RunSummary, UnknownPeaksAreSaidAndNotZero) {
  RunSummary summary = two_ranks();
  Json json = Json::parse(to_json(summary));
  EXPECT_EQ(json.at("mfu").at("causal"), "unknown");
  EXPECT_EQ(json.at("mfu").at("full"), "unknown");
  EXPECT_NE(short_text(summary).find("MFU unknown"), std::string::npos);
  summary.config.run.peak_flops = flops_per_token(summary.config.model).full * 240;
  json = Json::parse(to_json(summary));
  EXPECT_DOUBLE_EQ(json.at("mfu").at("full"), 0.5);
  EXPECT_NE(short_text(summary).find("MFU 0.50 (causal "), std::string::npos) << short_text(summary);
  EXPECT_EQ(json.at("mfu").at("peak"), "run.peak_flops");
}

// Without run.peak_flops, the MFU refers to the rate of products that rank 0 measured.
TEST(RunSummary, TheMeasuredRateOfProductsIsThePeakThatIsNotSet) {
  RunSummary summary = two_ranks();
  EXPECT_EQ(mfu_per_rate(summary), 0);
  summary.measured_flops = flops_per_token(summary.config.model).full * 480;
  Json json = Json::parse(to_json(summary));
  EXPECT_DOUBLE_EQ(json.at("mfu").at("full"), 0.25);
  EXPECT_EQ(json.at("mfu").at("peak"), "measured products");
  EXPECT_DOUBLE_EQ(json.at("mfu").at("peak_flops"), summary.measured_flops);
  EXPECT_NE(short_text(summary).find("MFU 0.25 (causal "), std::string::npos) << short_text(summary);
  EXPECT_NE(short_text(summary).find(" GFLOP/s, the measured rate of products\n"), std::string::npos);
  EXPECT_DOUBLE_EQ(mfu_per_rate(summary) * 240, 0.25) << "of 240 tokens/s over two ranks";
  summary.config.run.peak_flops = summary.measured_flops * 2;
  EXPECT_DOUBLE_EQ(mfu_per_rate(summary) * 240, 0.125) << "run.peak_flops takes precedence";
}

TEST(RunSummary, ShortTextNamesWhatMatters) {
  const std::string text = short_text(two_ranks());
  for (const char* part : {"5 steps, 500 tokens, 1000 parameters on dp 1 x fsdp 1 x tp 2\n",
                           "held-out loss 2.2500 nats per token, below the bigram entropy of that text, 2.5000\n",
                           "240 tokens/s in total, exposed communication 25.0 %\n",
                           "peak memory of rank 1: parameters 200 B, total 400 B\n", "run directory: /runs/a\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "is not in\n" << text;
  RunSummary worse = two_ranks();
  worse.evaluations.back().loss = 2.5;
  EXPECT_NE(short_text(worse).find("not below the bigram"), std::string::npos);
}

TEST(RunSummary, ARunThatStoppedAtOnceHasOneToo) {
  RunSummary summary{.end = RunEnd::kStopped, .reason = "the loss is nan", .config = resolved(Config(), 1)};
  const Json json = Json::parse(to_json(summary));
  EXPECT_EQ(json.at("end"), "stopped");
  EXPECT_EQ(json.at("reason"), "the loss is nan");
  EXPECT_TRUE(json.at("held_out").is_null());
  EXPECT_TRUE(json.at("loss").at("last").is_null());
  EXPECT_NE(short_text(summary).find("stopped after 0 of 1000 steps: the loss is nan\n"), std::string::npos);
}

}  // namespace
}  // namespace tessera::train
