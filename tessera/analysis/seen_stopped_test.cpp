// Ranks that the live report saw stopped, read after the run: the launcher has killed them, or SIGTERM continued them.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tessera/analysis/explain.h"
#include "tessera/analysis/read_run.h"
#include "tessera/base/probe/layout.h"
#include "tessera/base/probe/recorder.h"

namespace tessera::analysis {
namespace {

namespace fs = std::filesystem;
using probe::detail::FileHeader;

class SeenStopped : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "seen_stopped_XXXXXX";
    directory = ::mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(directory); }

  // Leaves the record of a rank that failed as process 10.
  void leave_failed_rank() const {
    std::string path;
    {
      const probe::Recorder recorder(RankPlace{.rank = tessera::Rank{0}, .world_size = 1, .run_dir = directory},
                                     probe::RecordOptions{.nbytes = probe::RecordOptions::kMinBytes});
      path = recorder.run_path();
    }
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    FileHeader header{};
    file.read(reinterpret_cast<char*>(&header), sizeof header);
    header.pid = 10;
    header.state = static_cast<std::uint32_t>(probe::detail::FileState::kFailed);
    file.seekp(0);
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
  }
  void write_launch(const std::string& text) const { std::ofstream(directory + "/launch.json") << text; }

  std::string directory;
};

TEST_F(SeenStopped, ARankThatWasKilledThenStaysSo) {
  write_launch(R"json({"ranks": 1, "starts": [{"time": "2020-01-01T00:00:00Z", "ranks": [
      {"rank": 0, "pid": 10, "end": "was killed by signal 9 (Killed)", "exit_code": 0, "signal": 9, "signals":
        [{"signal": 9, "text": "it did not end"}]}]}]})json");
  const std::string path = directory + "/explain.json";
  std::ofstream(path) << R"({"ranks": [{"rank": 0, "pid": 10, "state": "was stopped"}]})";
  EXPECT_EQ(read_run(directory).ranks.at(0).state, RankState::kStopped);
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(read_run(directory).ranks.at(0).state, RankState::kDied);
}

// SIGTERM of the launcher continues a stopped process, which then finds that the others have failed.
TEST_F(SeenStopped, ARankThatFailedThenStaysSo) {
  leave_failed_rank();
  const auto launch = [&](const char* signals) {
    write_launch(std::string(R"json({"ranks": 1, "exit_code": 1, "starts": [{"time": "2020-01-01T00:00:00Z", "ranks": [
        {"rank": 0, "pid": 10, "end": "exited with 1", "exit_code": 1, "signal": 0, "signals": [)json") +
                 signals + "]}]}]}");
  };
  std::ofstream(directory + "/explain.json") << R"({"ranks": [{"rank": 0, "pid": 10, "state": "was stopped"}]})";
  launch(R"({"signal": 15, "text": "rank 1 exited with 1"})");
  const Evidence evidence = read_run(directory);
  EXPECT_EQ(evidence.ranks.at(0).state, RankState::kStopped);
  const Verdict verdict = explain(evidence).verdict;
  EXPECT_EQ(verdict.fault, Fault::kStopped);
  EXPECT_NE(verdict.advice.find("the launcher ended it later"), std::string::npos) << verdict.advice;
  launch("");
  EXPECT_EQ(read_run(directory).ranks.at(0).state, RankState::kFailed) << "it failed by itself";
}

}  // namespace
}  // namespace tessera::analysis
