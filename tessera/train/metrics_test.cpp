#include "tessera/train/metrics.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>
#include <thread>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/train/testing/scripted_steps.h"

namespace tessera::train {
namespace {

TEST(Metrics, ALineHoldsTheStepOfARank) {
  const std::vector<OwnedBytes> memory{{"parameters", 4096}, {"gradients", 1024}};
  const StepReport report{.step = 7,
                          .loss = 2.5,
                          .grad_norm = 0.75,
                          .learning_rate = 0.125,
                          .end = StepEnd::kSkippedSpike,
                          .seconds = 0.5,
                          .exposed_seconds = 0.25,
                          .tokens = 2048,
                          .time = 1795032437.5};
  EXPECT_EQ(metrics_line(3, report, memory),
            R"({"rank":3,"step":7,"loss":2.5,"grad_norm":0.75,"learning_rate":0.125,"end":"skipped_spike",)"
            R"("tokens":2048,"seconds":0.5,"exposed_seconds":0.25,"tokens_per_second":4096.0,)"
            R"("time":1795032437.5,"memory":{"parameters":4096,"gradients":1024}})");
}

TEST(Metrics, WhatIsNotFiniteIsNull) {
  const StepReport report{.loss = std::nan(""), .grad_norm = std::numeric_limits<double>::infinity(), .seconds = 1};
  const auto line = nlohmann::json::parse(metrics_line(0, report, {}));
  EXPECT_TRUE(line.at("loss").is_null());
  EXPECT_TRUE(line.at("grad_norm").is_null());
  EXPECT_FALSE(line.contains("time")) << "unknown";
}

TEST(Metrics, ManyWritersDoNotMixTheirLines) {
  const testing::TemporaryDirectory directory;
  const auto path = directory.path() / "metrics.jsonl";
  constexpr int kLines = 200;
  {
    std::vector<std::jthread> writers;
    for (int writer = 0; writer < 4; ++writer) {
      writers.emplace_back([&path, writer] {
        LineFile file(path);
        for (int i = 0; i < kLines; ++i) file.append(std::string(3000, static_cast<char>('a' + writer)));
      });
    }
  }
  const auto lines = testing::lines_of(path);
  EXPECT_EQ(lines.size(), 4u * kLines);
  for (const std::string& line : lines) {
    ASSERT_EQ(line.size(), 3000u);
    ASSERT_EQ(line.find_first_not_of(line[0]), std::string::npos) << line;
  }
}

TEST(Metrics, AFifoIsRefusedAndNotWaitedFor) {
  const testing::TemporaryDirectory directory;
  const std::string fifo = (directory.path() / "metrics.jsonl").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  expect_error<IoError>([&] { const LineFile file(fifo); }, {fifo});
}

TEST(Metrics, ReportsWritesThatTheFileSystemRejects) {
  expect_error<IoError>([] { LineFile file("/proc/nothing/here"); }, {"/proc/nothing/here"});
  expect_error<IoError>([] { LineFile file("/dev/full"); }, {"/dev/full", "regular file"});
  const testing::TemporaryDirectory directory;
  const std::string path = (directory.path() / "metrics.jsonl").string();
  LineFile file(path);
  file.append("whole");
  rlimit old = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit eight_bytes{8, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &eight_bytes), 0);
  expect_error<IoError>([&] { file.append("torn"); }, {path, "must write all 5 bytes", "got 2", "full disk"});
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(std::filesystem::file_size(path), 6U) << "the torn line stayed";
}

}  // namespace
}  // namespace tessera::train
