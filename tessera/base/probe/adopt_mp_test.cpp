// Records of killed processes: moved into their run directory by any process that finds them, and never lost.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/probe/orphans.h"
#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/recorder.h"

namespace tessera::probe {
namespace {

namespace fs = std::filesystem;

struct AdoptedRecord {
  std::uint64_t number;
  TESSERA_RECORD(AdoptedRecord, "adopted", number)
};

class Adopt : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tessera_adopt_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    base = name;
    run = base + "/run";
    memory = base + "/memory";
    fs::create_directory(memory);
    ::setenv("TESSERA_RECORD_DIR", memory.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("TESSERA_RECORD_DIR");
    fs::remove_all(base);
  }

  RecordOptions options() const { return {.nbytes = RecordOptions::kMinBytes, .directory = memory}; }
  // Runs `body` with a recorder in a process that is killed when `body` returns.
  void killed_after(const std::function<void(Recorder&)>& body) const {
    const pid_t child = ::fork();
    if (child == 0) {
      Recorder recorder({.rank = Rank{3}, .world_size = 4, .run_dir = run}, options());
      recorder.write(Ring::kComm, AdoptedRecord{1});
      body(recorder);
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
  }
  void kill_one() const {
    killed_after([](Recorder&) {});
  }
  static std::vector<fs::directory_entry> in(const std::string& directory) {
    return {fs::directory_iterator(directory), fs::directory_iterator()};
  }
  // Expects one regular record file with this number of records in the run directory, and none in memory.
  void expect_adopted(std::size_t records, const std::string& directory) const {
    const auto files = in(directory);
    ASSERT_EQ(files.size(), 1U) << "no link, no temporary file";
    EXPECT_TRUE(files[0].is_regular_file() && !files[0].is_symlink()) << files[0].path();
    EXPECT_EQ(files[0].status().permissions(), fs::perms(0600));
    EXPECT_EQ(RecordFile::open(files[0].path().string()).records().size(), records);
    EXPECT_EQ(in(memory).size(), 0U);
  }

  std::string base;
  std::string run;
  std::string memory;  // directory of new records
};

TEST_F(Adopt, MovesTheRecordOfAKilledProcess) {
  kill_one();
  ASSERT_TRUE(in(run).at(0).is_symlink());
  const AdoptedRecords adopted = adopt_records(run);
  EXPECT_EQ(adopted.moved.size(), 1U);
  EXPECT_TRUE(adopted.problems.empty());
  expect_adopted(1, run);
}

TEST_F(Adopt, ReplacesTheCopyThatAProcessMadeBeforeItWasKilled) {
  killed_after([](Recorder& recorder) {
    recorder.save_failure("rank 1 did not arrive");
    recorder.write(Ring::kComm, AdoptedRecord{2});
  });
  ASSERT_FALSE(in(run).at(0).is_symlink());
  EXPECT_EQ(adopt_records(run).moved.size(), 1U);
  expect_adopted(2, run);
}

TEST_F(Adopt, RemovesTheTemporaryFileOfAProcessThatWasKilledDuringItsCopy) {
  std::string copy;
  killed_after(
      [&](Recorder&) { std::ofstream(in(run).at(0).path().string() + "." + std::to_string(::getpid()) + ".0.part"); });
  ASSERT_EQ(in(run).size(), 2U);
  for (const auto& entry : in(run)) {
    if (entry.is_symlink()) copy = entry.path().string();
  }
  const std::string of_running = copy + "." + std::to_string(::getpid()) + ".0.part";
  std::ofstream{of_running};
  EXPECT_EQ(adopt_records(run).moved.size(), 1U);
  EXPECT_TRUE(fs::remove(of_running));
  expect_adopted(1, run);
}

TEST_F(Adopt, TheNextStartInTheRunDirectoryDoesIt) {
  kill_one();
  { const Recorder recorder({.run_dir = run}, options()); }
  EXPECT_EQ(in(memory).size(), 0U);
  EXPECT_EQ(in(run).size(), 2U);
  for (const auto& entry : in(run)) EXPECT_FALSE(entry.is_symlink()) << entry.path();
}

TEST_F(Adopt, AStartInAnotherRunDirectoryDoesIt) {
  kill_one();
  { const Recorder recorder({.run_dir = base + "/other"}, options()); }
  expect_adopted(1, run);
  EXPECT_EQ(in(base + "/other").size(), 1U);
}

TEST_F(Adopt, ManyStartsAtOnceLeaveWholeRecords) {
  constexpr int kKilled = 4;
  for (int i = 0; i < kKilled; ++i) kill_one();
  std::vector<pid_t> starts;
  for (int i = 0; i < 8; ++i) {
    starts.push_back(::fork());
    if (starts.back() != 0) continue;
    { const Recorder recorder({.rank = Rank{i}, .world_size = 8, .run_dir = base + "/other"}, options()); }
    ::_exit(0);
  }
  for (const pid_t start : starts) {
    int status = -1;
    ASSERT_EQ(::waitpid(start, &status, 0), start);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(in(memory).size(), 0U);
  ASSERT_EQ(in(run).size(), std::size_t{kKilled});
  for (const auto& entry : in(run)) {
    EXPECT_FALSE(entry.is_symlink()) << entry.path();
    EXPECT_EQ(RecordFile::open(entry.path().string()).records().size(), 1U) << entry.path();
  }
}

TEST_F(Adopt, ARunDirectoryThatWasReplacedGetsNoCopy) {
  {
    Recorder recorder({.run_dir = run}, options());
    fs::rename(run, base + "/renamed");
    fs::create_directory(run);
    EXPECT_THROW(recorder.save_failure("for a reason"), IoError);
  }
  EXPECT_EQ(in(run).size(), 0U);
  EXPECT_EQ(in(memory).size(), 1U) << "the record stays";
}

// No planted link can redirect a copy: its temporary file is new, and the copy replaces the existing entry.
TEST_F(Adopt, PlantedLinksAreNotFollowed) {
  kill_one();
  const std::string link = in(run).at(0).path().string();
  std::ofstream(base + "/victim") << "old";
  for (int serial = 0; serial < 64; ++serial)
    fs::create_symlink(base + "/victim",
                       link + "." + std::to_string(::getpid()) + "." + std::to_string(serial) + ".part");
  for (int i = 0; i < 64 && fs::is_symlink(link); ++i) (void)adopt_records(run);
  EXPECT_FALSE(fs::is_symlink(link));
  std::ifstream victim(base + "/victim");
  std::string text;
  victim >> text;
  EXPECT_EQ(text, "old");
}

TEST_F(Adopt, LeavesARunningProcessAndOtherLinksAlone) {
  const Recorder recorder({.run_dir = run}, options());
  std::ofstream(base + "/secret") << "not a record";
  fs::create_symlink(base + "/secret", run + "/rank-1.host.1.0.record");
  fs::create_symlink(memory + "/tessera-n1-p1-t1-r0-0.record", run + "/rank-2.host.1.0.record");
  const AdoptedRecords adopted = adopt_records(run);
  EXPECT_TRUE(adopted.moved.empty() && adopted.problems.empty());
  EXPECT_TRUE(fs::is_symlink(recorder.run_path()));
  EXPECT_TRUE(fs::is_symlink(run + "/rank-1.host.1.0.record"));
  EXPECT_TRUE(fs::exists(recorder.path()));
}

TEST_F(Adopt, FindsLinksAfterTheRunDirectoryWasRenamed) {
  kill_one();
  fs::rename(run, base + "/renamed");
  EXPECT_EQ(adopt_records(base + "/renamed").moved.size(), 1U);
  expect_adopted(1, base + "/renamed");
}

TEST_F(Adopt, CleaningMovesWhatARunDirectoryLinksTo) {
  kill_one();
  const RemovedOrphans cleaned = remove_orphans(memory);
  EXPECT_EQ(cleaned.removed.size(), 0U);
  ASSERT_EQ(cleaned.moved.size(), 1U);
  EXPECT_EQ(cleaned.moved[0].run_path, in(run).at(0).path().string());
  expect_adopted(1, run);
}

TEST_F(Adopt, CleaningKeepsWhatARenamedRunDirectoryMayLinkTo) {
  kill_one();
  fs::rename(run, base + "/renamed");
  const RemovedOrphans cleaned = remove_orphans(memory);
  EXPECT_EQ(cleaned.removed.size() + cleaned.moved.size(), 0U);
  ASSERT_EQ(cleaned.kept.size(), 1U);
  EXPECT_EQ(RecordFile::open(in(base + "/renamed").at(0).path().string()).records().size(), 1U);
  EXPECT_EQ(remove_orphans(memory, /*removes_lost=*/true).removed.size(), 1U);
  EXPECT_EQ(in(memory).size(), 0U);
}

TEST_F(Adopt, KeepsTheRecordIfTheCopyFails) {
  kill_one();
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_EQ(adopt_records(run).problems.size(), 2U) << "by its link and by its header";
  EXPECT_EQ(remove_orphans(memory).problems.size(), 1U);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_TRUE(in(run).at(0).is_symlink());
  EXPECT_EQ(in(run).size(), 1U);
  EXPECT_EQ(in(memory).size(), 1U);
}

}  // namespace
}  // namespace tessera::probe
