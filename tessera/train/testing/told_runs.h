// Fixture for tests of complete runs: a training text, run directories next to it, and the output of a run.
#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <utility>

#include "tessera/train/run.h"
#include "tessera/train/testing/scripted_steps.h"
#include "tessera/train/testing/told_run.h"

namespace tessera::train::testing {

/// Fixture with a temporary directory.
class ToldRuns : public ::testing::Test {
 protected:
  void SetUp() override { write_text(directory.path()); }

  /// Returns a configuration for the run directory of this name.
  [[nodiscard]] Config config(const char* name = "run") const {
    Config config = told_config(directory.path());
    config.run.directory = path(name).string();
    return config;
  }
  /// Returns the path of a name in the directory of the test.
  [[nodiscard]] std::filesystem::path path(const char* name = "run") const { return directory.path() / name; }
  /// Runs, and raises the signal at the first line that begins with `begin`.
  RunSummary run_and(const Config& config, const std::string& begin = "none", int signal = SIGTERM) {
    said.clear();
    bool is_raised = false;
    const LineListener out([&](const std::string& line) {
      said += line + "\n";
      if (line.starts_with(begin) && !std::exchange(is_raised, true)) ::raise(signal);
    });
    return run(config, out.file());
  }

  TemporaryDirectory directory;
  std::string said;  ///< Output of the last run.
};

/// Returns true if `text` contains `part`.
inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace tessera::train::testing
