// Machine crashes while checkpoints, metrics and records are written. The file operations of the writers are logged.
// For every point of the log, the test creates directories as a crash may leave them, and reads them.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <csignal>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/run_directory.h"
#include "tessera/train/checkpoint/testing/checkpoints.h"
#include "tessera/train/checkpoint/verify.h"
#include "tessera/train/detail/resume.h"
#include "tessera/train/metrics.h"
#include "tessera/train/run.h"
#include "tessera/train/testing/file_calls.h"
#include "tessera/train/testing/told_run.h"

using tessera::train::testing::FileCalls;
using tessera::train::testing::open_logged;
using tessera::train::testing::real;
using tessera::train::testing::rename_logged;
using tessera::train::testing::sync_logged;
using tessera::train::testing::unlink_logged;

// Shared libraries (std::filesystem) call these functions too.
#pragma GCC visibility push(default)
extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_logged(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_logged(AT_FDCWD, path, flags, mode);
}
ssize_t write(int descriptor, const void* bytes, size_t count) {
  static auto* const next = real<ssize_t(int, const void*, size_t)>("write");
  const ssize_t written = next(descriptor, bytes, count);
  FileCalls* calls = FileCalls::of(descriptor);
  if (calls != nullptr && written > 0)
    calls->write(descriptor, static_cast<std::uint64_t>(::lseek(descriptor, 0, SEEK_CUR) - written), bytes, written);
  return written;
}
ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t offset) {
  static auto* const next = real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  const ssize_t written = next(descriptor, bytes, count, offset);
  if (FileCalls* calls = FileCalls::of(descriptor))
    calls->write(descriptor, static_cast<std::uint64_t>(offset), bytes, written);
  return written;
}
ssize_t pwrite64(int descriptor, const void* bytes, size_t count, off64_t offset) {
  return pwrite(descriptor, bytes, count, offset);
}
int ftruncate(int descriptor, off_t nbytes) noexcept {
  static auto* const next = real<int(int, off_t)>("ftruncate");
  const int result = next(descriptor, nbytes);
  FileCalls* calls = FileCalls::of(descriptor);
  if (calls != nullptr && result == 0) calls->resize(descriptor, static_cast<std::uint64_t>(nbytes));
  return result;
}
int ftruncate64(int descriptor, off64_t nbytes) noexcept { return ftruncate(descriptor, nbytes); }
int fsync(int descriptor) { return sync_logged(descriptor); }
int rename(const char* from, const char* to) noexcept { return rename_logged(from, to, 0); }
int renameat2(int, const char* from, int, const char* to, unsigned flags) noexcept {
  return rename_logged(from, to, flags);
}
int unlink(const char* path) noexcept { return unlink_logged(AT_FDCWD, path, 0); }
int unlinkat(int directory, const char* path, int flags) noexcept { return unlink_logged(directory, path, flags); }
int rmdir(const char* path) noexcept { return unlink_logged(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) noexcept {
  const int result = unlink_logged(AT_FDCWD, path, 0);
  return result != 0 && errno == EISDIR ? unlink_logged(AT_FDCWD, path, AT_REMOVEDIR) : result;
}
int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const next = real<int(const char*, mode_t)>("mkdir");
  const int result = next(path, mode);
  FileCalls* calls = FileCalls::of(path);
  if (calls != nullptr && result == 0) calls->name(path, true);
  return result;
}

}  // extern "C"
#pragma GCC visibility pop

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using testing::CrashDisk;
using testing::FileLog;
using testing::mark_before;

constexpr std::uint64_t kSeeds = 10;

class Crash : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/dev/shm/tessera_crash_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    base_ = name;
    fs::create_directories(base_ / "disk");
    log::set_level(log::Level::kOff);  // a crash causes warnings
  }
  void TearDown() override { fs::remove_all(base_); }
  [[nodiscard]] std::string disk() const { return (base_ / "disk").string(); }

  // Calls `check` with a directory that a crash before operation `point` of the log may leave.
  template <class Check>
  void at_each_crash(const FileLog& log, ino_t root, Check check) const {
    for (std::size_t point = 0; point <= log.size(); ++point) {
      for (std::uint64_t seed = 0; seed < kSeeds && !HasFailure(); ++seed) {
        SCOPED_TRACE("a crash before operation " + std::to_string(point) + " of " + std::to_string(log.size()) +
                     ", seed " + std::to_string(seed));
        CrashDisk(log, point, seed, root).write_to(base_ / "after");
        check(base_ / "after", point);
      }
    }
  }

  fs::path base_;
};

CheckpointState known_state() {
  CheckpointState state;
  state.tensors.emplace_back("weight", testing::allocate({"weight", DType::kF32, {300, 3}}, {}));
  state.tensors.emplace_back("bias", testing::allocate({"bias", DType::kF32, {7}}, {}));
  return state;
}

void save(CheckpointWriter& writer, std::int64_t step) {
  CheckpointState state = known_state();
  testing::set_known(state, step);
  state.texts["step"] = std::to_string(step);
  writer.save(step, state);
  writer.finish();
}

TEST_F(Crash, AReportedCheckpointSurvivesAndAPartialOneIsNotTaken) {
  FileCalls calls(disk());
  {
    CheckpointWriter writer({.directory = disk() + "/run/checkpoints", .keep = 2});
    for (const std::int64_t step : {10, 20, 20, 30, 40}) {  // 20 is replaced
      save(writer, step);
      ASSERT_TRUE(writer.take_errors().empty());
      calls.mark(static_cast<std::uint64_t>(step));
    }
  }
  const FileLog log = calls.log();
  ASSERT_GT(log.size(), 70U);
  at_each_crash(log, calls.root(), [&](const fs::path& after, std::size_t point) {
    const auto reported = static_cast<std::int64_t>(mark_before(log, point, 0));
    const auto last = last_good(after / "run" / "checkpoints", {});
    ASSERT_EQ(last.has_value() || reported == 0, true) << "step " << reported << " is lost";
    if (!last) return;
    EXPECT_GE(last->step, reported);
    CheckpointState state = known_state();
    EXPECT_EQ(load_checkpoint(*last, state).at("step"), std::to_string(last->step));
    EXPECT_EQ(testing::count_wrong(state, last->step), 0);
  });
}

TEST_F(Crash, ACheckpointWhoseSyncFailsIsNotReported) {
  std::int64_t syncs = 0;
  {
    FileCalls calls(disk());
    CheckpointWriter writer({.directory = disk() + "/good/checkpoints"});
    save(writer, 10);
    EXPECT_TRUE(writer.take_errors().empty());
    syncs = calls.syncs();
  }
  EXPECT_GE(syncs, 6) << "the shard, the index, its directory, the place, and the two directories that were made";
  for (std::int64_t failing = 0; failing < syncs; ++failing) {
    const std::string directory = disk() + "/" + std::to_string(failing);
    fs::create_directory(directory);
    FileCalls calls(directory);
    CheckpointWriter writer({.directory = directory + "/checkpoints"});
    calls.fail_sync(failing);
    save(writer, 10);
    if (calls.syncs() <= failing) break;  // one directory fewer is created here
    const std::vector<std::string> errors = writer.take_errors();
    ASSERT_EQ(errors.size(), 1U) << "sync " << failing << " failed, and the checkpoint counts as written";
    EXPECT_NE(errors[0].find("Input/output error"), std::string::npos) << errors[0];
    calls.fail_sync(-1);
    save(writer, 20);
    EXPECT_TRUE(writer.take_errors().empty());
    const auto last = last_good(directory + "/checkpoints", {});
    ASSERT_TRUE(last);
    EXPECT_EQ(last->step, 20);
  }
}

TEST_F(Crash, LinesOfMetricsSurviveOnceTheyAreSynced) {
  FileCalls calls(disk());
  std::vector<std::string> lines;
  {
    LineFile file(disk() + "/metrics.jsonl");
    for (std::int64_t step = 1; step <= 30; ++step) {
      lines.push_back(metrics_line(0, {.step = step, .loss = 1.5, .seconds = 0.25, .tokens = 64}, {}));
      file.append(lines.back());
      if (step % 10 != 0) continue;
      file.sync();
      calls.mark(static_cast<std::uint64_t>(step));
    }
  }
  const FileLog log = calls.log();
  at_each_crash(log, calls.root(), [&](const fs::path& after, std::size_t point) {
    const std::uint64_t synced = mark_before(log, point, 0);
    std::ifstream in(after / "metrics.jsonl");
    std::string line;
    for (std::uint64_t i = 0; i < synced; ++i) {
      ASSERT_TRUE(std::getline(in, line)) << "line " << i << " is lost";
      EXPECT_EQ(line, lines[i]);
    }
    in.close();
    detail::cut_back(after, static_cast<std::int64_t>(synced));
    RankTally tally(1);
    detail::add_told_steps(after, 0, tally);
    EXPECT_NEAR(tally.numbers(0).seconds, 0.25 * static_cast<double>(synced), 1e-9);
  });
}

TEST_F(Crash, LinesWhoseSyncFailsAreSyncedAgain) {
  for (const std::int64_t failing : {0, 1}) {  // the lines, and their name
    FileCalls calls(disk());
    LineFile file(disk() + "/metrics-" + std::to_string(failing));
    file.append("a line");
    calls.fail_sync(failing);
    EXPECT_THROW(file.sync(), IoError);
    calls.fail_sync(-1);
    const std::int64_t before = calls.syncs();
    file.sync();
    EXPECT_EQ(calls.syncs() - before, 2) << "the name is not durable yet";
    file.sync();
    EXPECT_EQ(calls.syncs() - before, 3);
  }
}

TEST_F(Crash, ADirectoryWhoseSyncFailsIsNotMade) {
  FileCalls calls(disk());
  const fs::path run = fs::path(disk()) / "runs" / "night";
  for (const std::int64_t failing : {0, 1}) {  // of disk/ and of runs/
    calls.fail_sync(calls.syncs() + failing);
    EXPECT_THROW(make_run_directory(run), IoError);
    EXPECT_FALSE(fs::exists(run));
    fs::remove(run.parent_path());
  }
  calls.fail_sync(-1);
  make_run_directory(run);
  calls.fail_sync(calls.syncs());
  EXPECT_THROW(make_run_subdirectory(run / "checkpoints"), IoError);
  EXPECT_FALSE(fs::exists(run / "checkpoints"));
}

// A complete run that SIGTERM ends: a surviving checkpoint has all its lines.
TEST_F(Crash, ARunKeepsItsCheckpointsAndTheLinesBeforeThem) {
  ::setenv("TESSERA_RECORD_BYTES", "256KiB", 1);
  testing::write_text(base_);
  Config config = testing::told_config(base_);
  config.run.directory = disk() + "/runs/night";
  config.run.log_every = 1;
  FileCalls calls(disk());
  std::int64_t last = 0;
  {
    bool is_raised = false;
    const testing::LineListener out([&](const std::string& line) {
      if (line.starts_with("step 3") && !std::exchange(is_raised, true)) ::raise(SIGTERM);
    });
    const RunSummary summary = run(config, out.file());
    ASSERT_EQ(summary.end, RunEnd::kInterrupted);
    last = summary.steps;
    calls.mark(1);
  }
  ASSERT_NE(last % config.checkpoint.every, 0) << "it is no checkpoint that would have been saved anyway";
  const FileLog log = calls.log();
  at_each_crash(log, calls.root(), [&](const fs::path& after, std::size_t point) {
    const fs::path night = after / "runs" / "night";
    const auto good = last_good(night / "checkpoints", {});
    if (mark_before(log, point, 0) == 1) {
      ASSERT_TRUE(good);
      EXPECT_EQ(good->step, last);
      EXPECT_TRUE(fs::exists(night / "summary.json") && fs::exists(night / "config.toml"));
    }
    if (!good) return;
    std::ifstream in(night / "metrics.jsonl");
    std::string line;
    for (std::int64_t step = 1; step <= good->step; ++step) {
      ASSERT_TRUE(std::getline(in, line)) << "the line of step " << step << " is lost";
      EXPECT_NE(line.find("\"step\":" + std::to_string(step) + ","), std::string::npos) << line;
    }
  });
}

// The record itself is in memory and lost with the machine; its copy in the run directory counts.
TEST_F(Crash, TheCopyOfARecordSurvivesOnceItIsMade) {
  FileCalls calls(disk());
  std::string name;
  {
    probe::Recorder recorder({.rank = Rank(0), .run_dir = disk()},
                             {.nbytes = probe::RecordOptions::kMinBytes, .directory = base_.string()});
    for (const auto& entry : fs::directory_iterator(disk())) name = entry.path().filename().string();
    (void)recorder.intern("a word of this rank");
    recorder.save_failure("for a reason");
    calls.mark(1);
    recorder.close();
    calls.mark(2);
  }
  ASSERT_NE(name, "");
  const FileLog log = calls.log();
  at_each_crash(log, calls.root(), [&](const fs::path& after, std::size_t point) {
    try {
      const auto file = probe::RecordFile::open((after / name).string());
      if (mark_before(log, point, 0) >= 1) {
        EXPECT_TRUE(file.problems().empty()) << file.problems().front();
        EXPECT_EQ(file.info().reason, "for a reason");
      }
    } catch (const IoError& error) {
      EXPECT_EQ(mark_before(log, point, 0), 0U) << "the copy is lost: " << error.what();
    }
  });
}

TEST_F(Crash, ACopyOfARecordWhoseSyncFailsIsAnError) {
  probe::Recorder recorder({.rank = Rank(0), .run_dir = disk()},
                           {.nbytes = probe::RecordOptions::kMinBytes, .directory = base_.string()});
  FileCalls calls(disk());
  for (const std::int64_t failing : {0, 1}) {  // the copy, and its name
    calls.fail_sync(calls.syncs() + failing);
    EXPECT_THROW(recorder.save_failure("for a reason"), IoError);
  }
  calls.fail_sync(-1);
  recorder.save_failure("for a reason");
}

}  // namespace
}  // namespace tessera::train
