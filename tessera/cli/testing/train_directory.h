// A fixture for tests of `tessera train`: a directory with training texts, in which commands and scripts run.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <nlohmann/json.hpp>

#include "tessera/cli/testing/run_program.h"

namespace tessera::cli::testing {

/// A temporary directory with training texts.
class TrainDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tessera_train_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory = name;
    for (const char* file : {"text", "other"}) {
      std::ofstream text(directory + "/" + file);
      for (int line = 0; line < 400; ++line)
        text << "line " << line << " of the " << file << " that says little\n";  // words: data of the run
    }
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  /// Runs `tessera` in the directory.
  [[nodiscard]] Outcome in_directory(const std::string& arguments) const {
    return tessera(arguments, "cd " + directory + " && TESSERA_RECORD_BYTES=1MiB");
  }
  /// Runs `tessera train` in the directory.
  [[nodiscard]] Outcome train(const std::string& arguments) const { return in_directory("train " + arguments); }
  /// Runs a shell script in the directory. $tessera is the program, and until_test waits until a command succeeds,
  /// while $job is running.
  [[nodiscard]] Outcome script(const std::string& lines) const {
    std::ofstream(directory + "/script")
        << "tessera='" TESSERA_PROGRAM "'\nexport TESSERA_RECORD_BYTES=1MiB\n"
        << "until_test() { until \"$@\"; do kill -0 $job || exit 99; sleep 0.02; done; }\n"
        << lines;
    const int status = std::system(("cd " + directory + " && sh script >out 2>err").c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content(directory + "/out"), content(directory + "/err")};
  }
  /// Returns the summary of a run directory in it.
  [[nodiscard]] nlohmann::json summary(const std::string& run = "run") const {
    return nlohmann::json::parse(content(directory + "/" + run + "/summary.json"), nullptr, false);
  }

  std::string directory;
};

}  // namespace tessera::cli::testing
