// `tessera train --device cuda` as a process that is killed, runs out of memory, or lacks a library.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <nlohmann/json.hpp>

#include "tessera/cli/testing/train_directory.h"
#include "tessera/device/device.h"

namespace tessera::cli::testing {
namespace {

namespace fs = std::filesystem;

class TrainOnGpu : public TrainDirectory {
 protected:
  void SetUp() override {
    for (const device::AbsentKind& absent : device::Device::absent()) {
      if (absent.kind == "cuda") GTEST_SKIP() << absent.reason;
    }
    TrainDirectory::SetUp();
  }
  void TearDown() override {
    if (!directory.empty()) TrainDirectory::TearDown();
  }
  [[nodiscard]] std::string newest_checkpoint(const std::string& run) const {
    std::string newest;
    for (const auto& entry : fs::directory_iterator(directory + "/" + run + "/checkpoints"))
      newest = std::max(newest, entry.path().string());
    return newest;
  }
  // Returns the losses by step, and the tensor files of the newest checkpoint.
  [[nodiscard]] std::map<std::string, std::string> results(const std::string& run) const {
    std::map<std::string, std::string> all{{"loss.csv", content(directory + "/" + run + "/loss.csv")}};
    for (const auto& entry : fs::directory_iterator(newest_checkpoint(run))) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("rank-")) all[name] = content(entry.path().string());
    }
    return all;
  }
  // Returns loss and norm of each step as written in metrics.jsonl.
  [[nodiscard]] std::map<std::int64_t, std::string> metrics(const std::string& run) const {
    std::map<std::int64_t, std::string> lines;
    std::ifstream file(directory + "/" + run + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line);
      lines[json.at("step")] += json.at("loss").dump() + " " + json.at("grad_norm").dump() + " ";
    }
    return lines;
  }

  const std::string options =
      "train --device cuda --deterministic --model.width 64 --model.layers 2 --model.hidden 64 "
      "--model.sequence 64 --model.dropout 0.1 --train.dtype bf16 --data.files text --train.steps 1500 "
      "--checkpoint.every 100 --eval.every 0 --eval.samples 8 --run.log_every 100 ";
};

TEST_F(TrainOnGpu, KilledAndResumedItHasTheBitsOfARunThatNeverStopped) {
  const Outcome whole = in_directory(options + "--run.directory whole");
  ASSERT_EQ(whole.code, 0) << whole.out << whole.err;
  for (const std::string how : {"", "--graph "}) {
    const std::string run = how.empty() ? "eager" : "replayed";
    const std::string command = options + how + "--run.directory " + run;
    const Outcome killed =
        script("$tessera " + command + " >said 2>&1 &\njob=$!\n" + "until_test sh -c 'ls " + run +
               "/checkpoints 2>/dev/null | grep -q \"^step-[0-9]*$\"'\n" + "kill -9 $job\nwait $job\nexit 0\n");
    ASSERT_EQ(killed.code, 0) << content(directory + "/said");
    ASSERT_FALSE(fs::exists(directory + "/" + run + "/summary.json")) << "it ended before it was killed";
    const Outcome resumed = in_directory(command);
    ASSERT_EQ(resumed.code, 0) << resumed.out << resumed.err;
    EXPECT_TRUE(contains(resumed.out, "resuming after step ")) << resumed.out;
    EXPECT_EQ(summary(run).at("resumed_from").size(), 1U);
    EXPECT_TRUE(results(run) == results("whole")) << run;
    EXPECT_EQ(metrics(run), metrics("whole")) << run;
  }
}

// 8192 samples of 1024 tokens: the activations take more memory than any GPU has.
TEST_F(TrainOnGpu, ABatchThatCannotFitEndsWithTheReportAndTheBatchThatFits) {
  const std::string large =
      "train --device cuda --model.preset 124m --data.files text --train.steps 2 --train.batch 8192 --eval.every 0 "
      "--eval.samples 1 --force ";
  const Outcome outcome = in_directory(large + "--run.directory run");
  EXPECT_EQ(outcome.code, 1) << outcome.out << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "the largest batch that fits is --train.batch ")) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "activations")) << outcome.out;
  EXPECT_EQ(summary().at("end"), "failed");
}

}  // namespace
}  // namespace tessera::cli::testing
