// Scripted steps of a run, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "tessera/train/detail/loop.h"

namespace tessera::train::testing {

/// Steps of 100 tokens whose loss falls by 1 each. `at` may change a report, or throw.
class ScriptedSteps final : public detail::StepRunner {
 public:
  StepReport step(Ahead ahead) override {
    aheads.push_back(ahead);
    StepReport report{.step = ++taken,
                      .loss = static_cast<double>(10 - taken),
                      .grad_norm = 0.5,
                      .learning_rate = 0.25,
                      .seconds = 2,
                      .exposed_seconds = 0.5,
                      .tokens = 100};
    if (at) at(report);
    return report;
  }
  double evaluate(const OnProgress& on_progress) override {
    ++evaluations;
    for (std::uint64_t batch = 1; batch < batches; ++batch) on_progress(batch, batches);
    return static_cast<double>(taken) + 0.125;
  }
  [[nodiscard]] std::vector<OwnedBytes> memory_now() const override { return {{"parameters", 64}, {"gradients", 32}}; }

  [[nodiscard]] bool has_step_ahead() const override { return runs_ahead && aheads.back() == Ahead::kNextStep; }

  std::function<void(StepReport&)> at;
  std::vector<Ahead> aheads;  ///< Of the calls of step().
  bool runs_ahead = false;    ///< True if it counts as enqueuing the next step whenever it may.
  std::int64_t taken = 0;
  int evaluations = 0;
  std::uint64_t batches = 1;  ///< Batches per evaluation.
};

/// A temporary directory.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/tessera_train_XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Returns a file as text.
inline std::string content(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Returns the lines of a file.
inline std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

}  // namespace tessera::train::testing
