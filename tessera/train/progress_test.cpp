#include "tessera/train/progress.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

namespace tessera::train {
namespace {

// Returns the output to a file that is not a terminal.
std::string said(const RunConfig& config, std::int64_t steps, const std::function<void(Progress&)>& body) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* file = ::open_memstream(&text, &size);
  Progress progress(config, steps, file);
  body(progress);
  std::fclose(file);
  std::string out(text, size);
  std::free(text);  // NOLINT: open_memstream allocates with malloc
  return out;
}

StepReport at_step(std::int64_t step) {
  return {.step = step, .loss = 2.5, .grad_norm = 0.75, .seconds = 0.5, .tokens = 1000};
}

TEST(Progress, LinesComeNowAndThenInAPipe) {
  const std::string text = said({.log_every = 4}, 10, [](Progress& progress) {
    for (std::int64_t step = 1; step <= 10; ++step) {
      progress.step(at_step(step), 3 << 20);
      if (step == 8) progress.evaluated(8, 2.25);
    }
    progress.say("the end\n");
  });
  EXPECT_EQ(text,
            "step 1/10   loss 2.5000   grad 0.75   2.00k tokens/s       3 MiB     0:05 left\n"
            "step 4/10   loss 2.5000   grad 0.75   2.00k tokens/s       3 MiB     0:03 left\n"
            "step 8/10   loss 2.5000   grad 0.75   2.00k tokens/s       3 MiB     0:01 left\n"
            "step 8/10  held-out loss 2.2500\n"
            "step 10/10  loss 2.5000   grad 0.75   2.00k tokens/s       3 MiB     0:00 left  held-out 2.2500\n"
            "the end\n");
}

TEST(Progress, TheMfuIsShownIfThePeakIsKnown) {
  const std::string text = said({.log_every = 1}, 2, [](Progress& progress) {
    progress.show_mfu(0.25 / 2000);
    progress.step(at_step(1), 3 << 20);
    progress.show_mfu(0);
    progress.step(at_step(2), 3 << 20);
  });
  EXPECT_EQ(text,
            "step 1/2  loss 2.5000   grad 0.75   2.00k tokens/s  MFU 0.25       3 MiB     0:01 left\n"
            "step 2/2  loss 2.5000   grad 0.75   2.00k tokens/s       3 MiB     0:00 left\n");
}

TEST(Progress, RatesHaveThreeDigitsAndAUnit) {
  const auto rate = [](std::int64_t tokens) {
    StepReport report = at_step(1);
    report.seconds = 1;
    report.tokens = tokens;
    const std::string line = progress_line({.report = report, .steps = 2});
    const std::size_t end = line.find(" tokens/s");
    return line.substr(line.rfind(' ', end - 1) + 1, end - line.rfind(' ', end - 1) - 1);
  };
  for (const auto& [tokens, text] : std::vector<std::pair<std::int64_t, std::string>>{{7, "7"},
                                                                                      {999, "999"},
                                                                                      {1000, "1.00k"},
                                                                                      {9752, "9.75k"},
                                                                                      {9999, "10.0k"},
                                                                                      {99'940, "99.9k"},
                                                                                      {99'960, "100k"},
                                                                                      {999'400, "999k"},
                                                                                      {999'600, "1.00M"},
                                                                                      {12'340'000, "12.3M"}})
    EXPECT_EQ(rate(tokens), text);
}

TEST(Progress, SkippedStepsAreAlwaysSaid) {
  const std::string text = said({.log_every = 100}, 10, [](Progress& progress) {
    progress.step(at_step(1), 0);
    StepReport skipped = at_step(2);
    skipped.end = StepEnd::kSkippedNan;
    progress.step(skipped, 0);
    skipped = at_step(3);
    skipped.end = StepEnd::kSkippedSpike;
    progress.step(skipped, 0);
  });
  EXPECT_NE(text.find("step 2/10"), std::string::npos);
  EXPECT_NE(text.find("skipped: not finite\n"), std::string::npos);
  EXPECT_NE(text.find("skipped: spike\n"), std::string::npos);
}

TEST(Progress, ABarIsDrawnOverItself) {
  const std::string text = said({.progress = "bar"}, 2, [](Progress& progress) {
    progress.step(at_step(1), 0);
    progress.step(at_step(2), 0);  // the last is always drawn
    progress.say("the end\n");
  });
  EXPECT_EQ(text,
            "\x1b[K[##########..........] step 1/2  loss 2.5000  grad 0.75  2.00k tokens/s  0:01 left\r"
            "\x1b[K[####################] step 2/2  loss 2.5000  grad 0.75  2.00k tokens/s  0:00 left\r"
            "\nthe end\n");
  EXPECT_TRUE(is_bar_line(text));
  EXPECT_FALSE(is_bar_line("step 1/2"));
}

TEST(Progress, SaysNothingWhenToldSoButForWhatIsSaidAtTheEnd) {
  EXPECT_EQ(said({.progress = "none"}, 1,
                 [](Progress& progress) {
                   progress.step(at_step(1), 0);
                   progress.evaluated(1, 2);
                   progress.say("the end\n");
                 }),
            "the end\n");
  Progress nobody({.progress = "bar"}, 1, nullptr);
  nobody.step(at_step(1), 0);
  nobody.evaluated(1, 2);
  nobody.say("the end\n");
}

TEST(Progress, ABarThatDoesNotFitLosesWholeFieldsAndNoDigits) {
  const std::string bar = "[##..] step 12/500  loss 2.3456  MFU 0.41  9.75k tokens/s";
  EXPECT_EQ(fitted_bar(bar, 100), bar);
  EXPECT_EQ(fitted_bar(bar, bar.size() - 1), "step 12/500  loss 2.3456  MFU 0.41  9.75k tokens/s");
  EXPECT_EQ(fitted_bar(bar, 45), "step 12/500  loss 2.3456  9.75k tokens/s") << "the MFU goes first";
  EXPECT_EQ(fitted_bar(bar, 30), "step 12/500  loss 2.3456");
  EXPECT_EQ(fitted_bar(bar, 20), "step 12/500");
  EXPECT_EQ(fitted_bar(bar, 4), "step");
}

TEST(Progress, APhaseIsShownOnceItTakesLong) {
  using std::chrono::milliseconds;
  const PhaseProgress::Clock::time_point begin = {};
  const auto shown = [&](const RunConfig& config) {
    return said(config, 10, [&](Progress& progress) {
      PhaseProgress phase(progress, "held-out evaluation", "batches", begin);
      phase.at(1, 40, begin + milliseconds(900));
      phase.at(2, 40, begin + milliseconds(2000));
      phase.at(3, 40, begin + milliseconds(2050));
      phase.at(10, 40, begin + milliseconds(5000));
      phase.at(11, 40, begin + milliseconds(9990));
      phase.at(20, 40, begin + milliseconds(10000));
      progress.say("the end\n");
    });
  };
  EXPECT_EQ(shown({}),
            "held-out evaluation: 10/40 batches  0:15 left\n"
            "held-out evaluation: 20/40 batches  0:10 left\n"
            "the end\n");
  const std::string bar = shown({.progress = "bar"});
  EXPECT_TRUE(
      bar.starts_with("\x1b[K[#...................] held-out evaluation: 2/40 batches  0:38 left\r"
                      "\x1b[K[#####...............] held-out evaluation: 10/40 batches  0:15 left\r"))
      << bar;
  EXPECT_EQ(shown({.progress = "none"}), "the end\n");
  EXPECT_EQ(phase_line({.name = "reading", .unit = "bytes", .done = 3 << 20, .all = 5 << 20, .seconds_left = 61}),
            "reading: 3 MiB of 5 MiB  1:01 left");
}

TEST(Progress, TimeLeftOfLongRunsHasHours) {
  const ProgressPoint point{.report = at_step(1), .steps = 2, .seconds_left = 3600 + 61};
  EXPECT_NE(progress_line(point).find("1:01:01 left"), std::string::npos);
}

}  // namespace
}  // namespace tessera::train
