#include "tessera/train/progress.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

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
            "step 1/10  loss 2.5000  grad 0.75  2000 tokens/s  3 MiB  left 0:05\n"
            "step 4/10  loss 2.5000  grad 0.75  2000 tokens/s  3 MiB  left 0:03\n"
            "step 8/10  loss 2.5000  grad 0.75  2000 tokens/s  3 MiB  left 0:01\n"
            "step 8/10  held-out loss 2.2500\n"
            "step 10/10  loss 2.5000  grad 0.75  2000 tokens/s  3 MiB  left 0:00  held-out 2.2500\n"
            "the end\n");
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
            "\x1b[K[##########..........] step 1/2  loss 2.5000  grad 0.75  2000 tokens/s  left 0:01\r"
            "\x1b[K[####################] step 2/2  loss 2.5000  grad 0.75  2000 tokens/s  left 0:00\r"
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
  const std::string bar = "[##..] step 12/500  loss 2.3456  9752 tokens/s";
  EXPECT_EQ(fitted_bar(bar, 100), bar);
  EXPECT_EQ(fitted_bar(bar, bar.size() - 1), "step 12/500  loss 2.3456  9752 tokens/s");
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
            "held-out evaluation: 10/40 batches  left 0:15\n"
            "held-out evaluation: 20/40 batches  left 0:10\n"
            "the end\n");
  const std::string bar = shown({.progress = "bar"});
  EXPECT_TRUE(
      bar.starts_with("\x1b[K[#...................] held-out evaluation: 2/40 batches  left 0:38\r"
                      "\x1b[K[#####...............] held-out evaluation: 10/40 batches  left 0:15\r"))
      << bar;
  EXPECT_EQ(shown({.progress = "none"}), "the end\n");
  EXPECT_EQ(phase_line({.name = "reading", .unit = "bytes", .done = 3 << 20, .all = 5 << 20, .seconds_left = 61}),
            "reading: 3 MiB of 5 MiB  left 1:01");
}

TEST(Progress, TimeLeftOfLongRunsHasHours) {
  const ProgressPoint point{.report = at_step(1), .steps = 2, .seconds_left = 3600 + 61};
  EXPECT_NE(progress_line(point).find("left 1:01:01"), std::string::npos);
}

}  // namespace
}  // namespace tessera::train
