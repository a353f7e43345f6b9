#include "tessera/train/detail/loop.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/world.h"
#include "tessera/train/detail/run_directory.h"
#include "tessera/train/detail/run_signals.h"
#include "tessera/train/run.h"
#include "tessera/train/testing/scripted_steps.h"

namespace tessera::train {
namespace {

using testing::content;
using testing::lines_of;
using testing::ScriptedSteps;
using testing::TemporaryDirectory;

struct Loop {
  explicit Loop(std::int64_t count, std::int64_t every = 0) {
    Config config;
    config.train.steps = count;
    config.eval.every = every;
    summary.config = resolved(config, 1);
  }
  void run(int rank = 0, bool has_held_out = true, detail::BetweenSteps* between = nullptr) {
    Progress progress({}, summary.config.train.steps, nullptr);
    detail::take_steps(steps,
                       {.directory = directory.path(), .rank = rank, .has_held_out = has_held_out, .between = between},
                       progress, summary, tally);
  }

  TemporaryDirectory directory;
  ScriptedSteps steps;
  RunSummary summary;
  RankTally tally{1};
};

TEST(Loop, WritesALineAStepAndTheCurve) {
  Loop loop(3);
  loop.run();
  const auto lines = lines_of(loop.directory.path() / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(nlohmann::json::parse(lines[1]).at("step"), 2);
  EXPECT_EQ(nlohmann::json::parse(lines[1]).at("memory").at("gradients"), 32);
  EXPECT_EQ(content(loop.directory.path() / "loss.csv"),
            "step,loss,grad_norm,learning_rate,held_out_loss\n1,9,0.5,0.25,\n2,8,0.5,0.25,\n3,7,0.5,0.25,3.125\n");
  EXPECT_EQ(loop.summary.steps, 3);
  EXPECT_EQ(loop.summary.tokens, 300);
  EXPECT_EQ(loop.summary.first_loss, 9);
  EXPECT_EQ(loop.summary.last_loss, 7);
  EXPECT_EQ(loop.tally.numbers(0).seconds, 6);
}

TEST(Loop, EvaluatesNowAndThenAndAtTheEndOnce) {
  Loop loop(6, 2);
  loop.run();
  ASSERT_EQ(loop.summary.evaluations.size(), 3u);
  EXPECT_EQ(loop.summary.evaluations[0].step, 2);
  EXPECT_EQ(loop.summary.evaluations[2].loss, 6.125);
  Loop odd(5, 2);
  odd.run();
  ASSERT_EQ(odd.summary.evaluations.size(), 3u);
  EXPECT_EQ(odd.summary.evaluations[2].step, 5);
  Loop none(5, 2);
  none.run(0, false);
  EXPECT_EQ(none.steps.evaluations, 0);
}

TEST(Loop, RunsAheadUnlessAnEvaluationOrAnActionIsDue) {
  using enum Ahead;
  Loop loop(6, 3);
  loop.run();
  EXPECT_EQ(loop.steps.aheads, (std::vector<Ahead>{kNextStep, kNextStep, kNone, kNextStep, kNextStep, kNone}));
  Loop plain(6, 3);
  plain.run(0, false);
  EXPECT_EQ(plain.steps.aheads, (std::vector<Ahead>{kNextStep, kNextStep, kNextStep, kNextStep, kNextStep, kNone}));
}

// An action is due after step 2, and sees which steps have another one ahead of them.
class ActsAfterTwo final : public detail::BetweenSteps {
 public:
  void before(std::int64_t /*step*/) override {}
  void after_batch() override {}
  [[nodiscard]] bool may_run_ahead(std::int64_t step) const override { return step != 2; }
  bool after(std::int64_t /*step*/, bool has_step_ahead, const std::function<void()>& /*sync_lines*/) override {
    seen.push_back(has_step_ahead);
    return true;
  }
  std::vector<bool> seen;
};

TEST(Loop, TellsActionsWhetherTheNextStepIsEnqueued) {
  Loop loop(4);
  loop.steps.runs_ahead = true;
  ActsAfterTwo between;
  loop.run(0, true, &between);
  EXPECT_EQ(between.seen, (std::vector<bool>{true, false, true, false}));
}

// Requests the end of the run after so many batches of all evaluations.
class EndsAfterBatches final : public detail::BetweenSteps {
 public:
  explicit EndsAfterBatches(int batches) : batches_(batches) {}
  void before(std::int64_t /*step*/) override {}
  void after_batch() override {
    if (--batches_ == 0) throw detail::AskedToEnd();
  }
  [[nodiscard]] bool may_run_ahead(std::int64_t /*step*/) const override { return false; }
  bool after(std::int64_t /*step*/, bool /*has_step_ahead*/, const std::function<void()>& /*sync_lines*/) override {
    return batches_ > 0;
  }

 private:
  int batches_;
};

TEST(Loop, AnEvaluationThatIsAskedToEndHasNoLossAndEndsTheRun) {
  Loop loop(6, 2);
  loop.steps.batches = 4;
  EndsAfterBatches between(5);  // the second batch of the second evaluation
  loop.run(0, true, &between);
  EXPECT_EQ(loop.summary.steps, 4);
  ASSERT_EQ(loop.summary.evaluations.size(), 1u);
  EXPECT_EQ(loop.summary.evaluations[0].step, 2);
  EXPECT_EQ(lines_of(loop.directory.path() / "loss.csv").at(4), "4,6,0.5,0.25,");
}

TEST(Loop, ARunThatResumesWithoutItsEvaluationEvaluatesFirst) {
  Loop whole(6, 2);
  whole.run();
  Loop loop(6, 2);
  loop.steps.batches = 4;
  EndsAfterBatches ends(5);
  loop.run(0, true, &ends);
  EndsAfterBatches ends_again(1);
  loop.run(0, true, &ends_again);
  EXPECT_EQ(loop.summary.steps, 4) << "no step is taken before the evaluation";
  EXPECT_EQ(loop.summary.evaluations.size(), 1u);
  loop.run();
  EXPECT_EQ(loop.summary.steps, 6);
  ASSERT_EQ(loop.summary.evaluations.size(), 3u);
  EXPECT_EQ(loop.summary.evaluations[1].step, 4);
  EXPECT_EQ(content(loop.directory.path() / "loss.csv"), content(whole.directory.path() / "loss.csv"));
}

TEST(Loop, TheLastEvaluationIsTakenAgainWhenAllStepsAreBehind) {
  Loop loop(3);
  loop.steps.batches = 2;
  EndsAfterBatches ends(1);
  loop.run(0, true, &ends);
  EXPECT_EQ(loop.summary.steps, 3);
  EXPECT_TRUE(loop.summary.evaluations.empty());
  loop.run();
  ASSERT_EQ(loop.summary.evaluations.size(), 1u);
  EXPECT_EQ(lines_of(loop.directory.path() / "loss.csv").at(3), "3,7,0.5,0.25,3.125");
  loop.run();
  EXPECT_EQ(loop.steps.evaluations, 2) << "a complete evaluation is not repeated";
}

TEST(Loop, OnlyRankZeroWritesTheCurve) {
  Loop loop(2);
  loop.run(1);
  EXPECT_FALSE(std::filesystem::exists(loop.directory.path() / "loss.csv"));
  EXPECT_EQ(lines_of(loop.directory.path() / "metrics.jsonl").size(), 2u);
}

TEST(Loop, KeepsWhatWasDoneWhenAStepThrows) {
  Loop loop(5);
  loop.steps.at = [](StepReport& report) {
    if (report.step == 2) report.end = StepEnd::kSkippedNan;
    if (report.step == 3) report.end = StepEnd::kSkippedSpike;
    if (report.step == 4) TESSERA_THROW(TrainingStopped, "the loss is nan");
  };
  expect_error<TrainingStopped>([&] { loop.run(); }, {"the loss is nan"});
  EXPECT_EQ(loop.summary.steps, 3);
  EXPECT_EQ(loop.summary.skipped_nan, 1);
  EXPECT_EQ(loop.summary.skipped_spike, 1);
  EXPECT_EQ(lines_of(loop.directory.path() / "metrics.jsonl").size(), 3u);
  EXPECT_TRUE(loop.summary.evaluations.empty());
}

TEST(Loop, TotalIsTheOwnerOfThatNameOrTheSum) {
  EXPECT_EQ(detail::total_of({{"a", 1}, {"b", 2}}), 3);
  EXPECT_EQ(detail::total_of({{"a", 1}, {"total", 9}, {"b", 2}}), 9);
}

void silent(const std::string& /*line*/) {}

Config into(const std::filesystem::path& path) {
  Config config;
  config.run.directory = path;
  config.train.batch = 6;  // for two ranks and for three
  return config;
}

TEST(RunDirectory, AllRanksGetItAndRankZeroTheirNumbers) {
  const TemporaryDirectory base;
  simulate(3, [&] {
    const detail::RunRanks ranks;
    const Config config = resolved(into(base.path() / "a" / "b"), 3);
    const detail::RunStart start = ranks.open_directory(config, silent);
    EXPECT_EQ(start.directory, base.path() / "a" / "b");
    ranks.take_directory(start, config, silent);
    RankTally tally(3);
    tally.add({.step = 1, .seconds = 1.0 + ranks.rank(), .tokens = 3});
    const auto all = ranks.collect(tally.numbers(ranks.rank()));
    ASSERT_EQ(all.size(), ranks.rank() == 0 ? 3u : 1u);
    for (const RankNumbers& each : all) EXPECT_EQ(each.seconds, 1.0 + each.rank);
    ranks.finish();
    // A second run in the same world is independent of the first.
    const detail::RunRanks again;
    EXPECT_EQ(again.open_directory(resolved(into(base.path() / "c"), 3), silent).directory, base.path() / "c");
    again.finish();
  });
  Config back;
  read_toml(back, base.path() / "a" / "b" / "config.toml");
  EXPECT_EQ(back.mesh.dp, 3) << "the configuration in it is the resolved one";
}

TEST(RunDirectory, TheFirstRankThatFailsIsToldSo) {
  simulate(2, [] {
    const detail::RunRanks ranks;
    if (ranks.rank() == 0) (void)comm::store()->get("rank 1 failed", std::chrono::seconds(20));
    EXPECT_EQ(ranks.is_first_to_fail(), ranks.rank() == 1);
    if (ranks.rank() == 1) comm::store()->set("rank 1 failed", "yes");
  });
  EXPECT_TRUE(detail::RunRanks().is_first_to_fail());
}

TEST(RunDirectory, ARunThatFailsLeavesASummaryThatSaysWhy) {
  const TemporaryDirectory base;
  std::ofstream(base.path() / "text.txt") << std::string(5000, 'x');
  std::filesystem::create_directories(base.path() / "run" / "metrics.jsonl");  // no file can be created there
  Config config;
  config.data.files = {(base.path() / "text.txt").string()};
  config.model = {.width = 16, .layers = 1, .heads = 2, .kv_heads = 2, .hidden = 32, .vocabulary = 260, .sequence = 16};
  config.train.steps = 2;
  config.train.batch = 2;
  config.run.directory = base.path() / "run";
  EXPECT_THROW(simulate(2, [&] { (void)run(config, nullptr); }), IoError);
  const auto summary = nlohmann::json::parse(content(base.path() / "run" / "summary.json"));
  EXPECT_EQ(summary.at("end"), "failed");
  EXPECT_NE(summary.at("reason").get<std::string>().find("metrics.jsonl"), std::string::npos) << summary;
}

TEST(RunDirectory, OneThatHoldsARunIsRefusedOnAllRanks) {
  const TemporaryDirectory base;
  std::ofstream(base.path() / "config.toml") << "[train]\nbatch = 12\n";
  simulate(2, [&] {
    const detail::RunRanks ranks;
    expect_error<IoError>([&] { (void)ranks.open_directory(resolved(into(base.path()), 2), silent); },
                          {base.path().string(), "already contains a run", "--run.directory"});
  });
  EXPECT_EQ(content(base.path() / "config.toml"), "[train]\nbatch = 12\n");
  expect_error<IoError>([&] { (void)detail::RunRanks().open_directory(into("/proc/nothing/here"), silent); },
                        {"/proc/nothing/here", "--run.directory"});
}

TEST(RunDirectory, IsTheLaunchersWhereNoneIsGiven) {
  const TemporaryDirectory base;
  simulate(2,
           [&] { EXPECT_EQ(detail::RunRanks().open_directory(resolved(Config(), 2), silent).directory, base.path()); },
           {.run_dir = base.path().string()});
}

TEST(Printable, ReplacesWhatATerminalWouldObey) {
  EXPECT_EQ(printable("plain\n\ttext"), "plain\n\ttext");
  EXPECT_EQ(printable(std::string_view("a\0b\x1b[2J\x7f\r", 9)), "a\ufffdb\ufffd[2J\ufffd\ufffd");
  EXPECT_EQ(printable("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"), "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(printable("\xc3(\xff"), "\ufffd(\ufffd");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\ufffd\ufffd\ufffd") << "half of a surrogate pair";
  EXPECT_EQ(printable("\xc2\x9b"), "\ufffd\ufffd") << "a control character in two bytes";
  EXPECT_EQ(printable("\xe2\x82"), "\ufffd\ufffd") << "cut off";
}

}  // namespace
}  // namespace tessera::train
