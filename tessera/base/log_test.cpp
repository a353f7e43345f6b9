// Log lines: levels, rank, sinks, and the cost of disabled levels.
#include "tessera/base/log.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tessera/base/rank.h"

namespace tessera {
namespace {

struct Counted {
  int* count;
};
std::string to_string(const Counted& counted) {
  ++*counted.count;
  return "counted";
}

struct Throws {};
std::string to_string(const Throws&) { throw std::runtime_error("x"); }

TEST(Log, PutsPartsTogether) {
  const log::LineCapture log;
  log::debug("a ", 1, ' ', true);
  log::info("b");
  log::warn(std::vector<int>{1, 2});
  log::error("c ", 0.5);
  EXPECT_EQ(log.lines(), (std::vector<std::string>{"debug: a 1 true", "info: b", "warn: [1, 2]", "error: c 0.5"}));
}

TEST(Log, DropsWhatIsBelowTheLevelWithoutFormattingIt) {
  const log::LineCapture log(log::Level::kWarn);
  int count = 0;
  log::debug(Counted{&count});
  log::info(Counted{&count});
  EXPECT_EQ(count, 0);
  log::warn(Counted{&count});
  EXPECT_EQ(count, 1);
  EXPECT_EQ(log.lines().size(), 1u);
  EXPECT_FALSE(log::enabled(log::Level::kInfo));
  EXPECT_TRUE(log::enabled(log::Level::kError));
  log::set_level(log::Level::kOff);
  log::error("x");
  EXPECT_EQ(log.lines().size(), 1u);
}

TEST(Log, ShowsTheRankWhenThereAreSeveral) {
  const log::LineCapture log;
  log::info("alone");
  {
    const RankScope scope(std::make_shared<RankContext>(RankPlace{.rank = Rank(2), .world_size = 3}));
    log::info("one of three");
    Thread("child", [] { log::info("its child"); }).join();
  }
  EXPECT_EQ(log.lines(),
            (std::vector<std::string>{"info: alone", "info: [rank 2] one of three", "info: [rank 2] its child"}));
}

TEST(Log, CaptureGivesBackLevelAndSink) {
  log::LineCapture outer(log::Level::kInfo);
  {
    const log::LineCapture inner;
    log::debug("inner");
    EXPECT_EQ(inner.lines().size(), 1u);
  }
  log::debug("dropped");
  log::info("outer");
  EXPECT_EQ(outer.lines(), std::vector<std::string>{"info: outer"});
}

TEST(Log, NeverThrows) {
  const log::LineCapture log;
  log::info(Throws{});
  EXPECT_EQ(log.lines(), std::vector<std::string>{"info: (log line could not be formatted)"});
  const auto before = log::set_sink([](log::Level, std::string_view) { throw std::runtime_error("x"); });
  EXPECT_NO_THROW(log::info("lost"));
  log::set_sink(before);
}

TEST(Log, LinesOfThreadsStayWhole) {
  const log::LineCapture log;
  {
    std::vector<Thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back("talker", [i] {
        for (int j = 0; j < 250; ++j) log::info("thread ", i, " line ", j);
      });
    }
  }
  const auto lines = log.lines();
  ASSERT_EQ(lines.size(), 1000u);
  for (const std::string& line : lines) EXPECT_TRUE(line.starts_with("info: thread ")) << line;
}

TEST(Log, LevelsHaveNames) {
  EXPECT_EQ(log::to_string(log::Level::kDebug), "debug");
  EXPECT_EQ(log::to_string(log::Level::kOff), "off");
}

}  // namespace
}  // namespace tessera
