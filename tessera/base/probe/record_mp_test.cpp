// Tests with several processes: reading during writes, reading after a kill, and the files that remain at the end.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tessera/base/error.h"
#include "tessera/base/probe/detail/record_store.h"
#include "tessera/base/probe/orphans.h"
#include "tessera/base/probe/process_identity.h"
#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/recorder.h"

namespace tessera::probe {
namespace {

namespace fs = std::filesystem;

struct NumberedRecord {
  std::uint64_t a, b, c, d, e;
  static NumberedRecord of(std::uint64_t n) { return {n, n * 3, ~n, n ^ 0x5555, n + 1}; }
  friend bool operator==(const NumberedRecord&, const NumberedRecord&) = default;
  TESSERA_RECORD(NumberedRecord, "mp_numbered", a, b, c, d, e)
};

struct InFlightRow {
  std::uint64_t sequence;
  StringId operation;
  static constexpr std::uint32_t kRows = 8;
  TESSERA_RECORD(InFlightRow, "mp_in_flight", sequence, operation)
};

RecordOptions small_options() { return {.nbytes = RecordOptions::kMinBytes}; }

// A child that runs `body` and exits with its result; killed and reaped at the end of the test.
class Child {
 public:
  explicit Child(const std::function<void(int to_parent)>& body) {
    int ends[2] = {};
    EXPECT_EQ(pipe(ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      body(ends[1]);
      std::exit(0);
    }
    close(ends[1]);
    from_ = ends[0];
  }
  ~Child() {
    stop(SIGKILL);
    close(from_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Returns a line that the child sent.
  std::string line() const {
    std::string text;
    char c = 0;
    while (read(from_, &c, 1) == 1 && c != '\n') text += c;
    return text;
  }
  int stop(int signal) {
    if (pid_ <= 0) return 0;
    kill(pid_, signal);
    return wait();
  }
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int from_ = -1;
};

void send_line(int to, const std::string& text) {
  const std::string line = text + "\n";
  EXPECT_EQ(write(to, line.data(), line.size()), static_cast<ssize_t>(line.size()));
}

// Writes forever on two threads and sends the path.
void write_for_ever(int to_parent) {
  Recorder recorder({}, small_options());
  auto row = recorder.table<InFlightRow>().claim({7, recorder.intern("all_reduce")});
  const auto body = [&](std::uint64_t start) {
    for (std::uint64_t n = start;; ++n) recorder.write(Ring::kComm, NumberedRecord::of(n));
  };
  recorder.write(Ring::kComm, NumberedRecord::of(1));
  send_line(to_parent, recorder.path());
  Thread second("second", [&] { body(std::uint64_t{1} << 40); });
  body(2);
}

std::uint64_t expect_whole_records(const RecordFile& file) {
  std::uint64_t found = 0;
  for (const RecordRef& ref : file.records()) {
    const auto record = file.as<NumberedRecord>(ref);
    if (!record) continue;
    EXPECT_EQ(*record, NumberedRecord::of(record->a));
    ++found;
  }
  return found;
}

class TempDir {
 public:
  TempDir() {
    std::string name = ::testing::TempDir() + "record_mp_XXXXXX";
    path = mkdtemp(name.data());
  }
  ~TempDir() { fs::remove_all(path); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string path;
};

std::vector<std::string> files_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().string());
  return names;
}

const FoundRecord* find_record(const std::vector<FoundRecord>& found, const std::string& path) {
  for (const FoundRecord& record : found) {
    if (record.path == path) return &record;
  }
  return nullptr;
}

TEST(RecordFile, IsReadWhileAnotherProcessWrites) {
  Child child(write_for_ever);
  const std::string path = child.line();
  for (int i = 0; i < 100; ++i) {
    const RecordFile file = RecordFile::open(path);
    EXPECT_TRUE(file.problems().empty());
    EXPECT_GT(expect_whole_records(file), 0U);
    EXPECT_EQ(file.info().pid, static_cast<std::uint64_t>(child.pid()));
  }
}

TEST(RecordFile, SurvivesSigkill) {
  for (int i = 0; i < 10; ++i) {
    Child child(write_for_ever);
    const std::string path = child.line();
    usleep(static_cast<useconds_t>(i * 300));  // kill it at different points
    child.stop(SIGKILL);
    const RecordFile file = RecordFile::open(path);
    EXPECT_TRUE(file.problems().empty());
    EXPECT_GT(expect_whole_records(file), 0U);
    for (const RingInfo& ring : file.rings()) EXPECT_LE(ring.torn, 2U);
    const TableInfo* table = file.find_table("mp_in_flight");
    ASSERT_NE(table, nullptr);
    ASSERT_EQ(table->claimed.size(), 1U);
    EXPECT_EQ(to_string(table->claimed[0].find("operation")->value), "all_reduce");
    EXPECT_EQ(file.info().state, RecordState::kOpen);
    fs::remove(path);
  }
}

TEST(Orphans, OfKilledProcessesAreListedAndRemoved) {
  Child child(write_for_ever);
  Child living(write_for_ever);
  const std::string path = child.line();
  const std::string living_path = living.line();
  const auto before = list_records();
  ASSERT_NE(find_record(before, path), nullptr);
  EXPECT_EQ(find_record(before, path)->liveness, Liveness::kAlive);
  EXPECT_EQ(find_record(before, path)->pid, static_cast<std::uint64_t>(child.pid()));
  EXPECT_EQ(find_record(before, path)->nbytes, RecordOptions::kMinBytes);
  child.stop(SIGKILL);
  ASSERT_NE(find_record(list_records(), path), nullptr);
  EXPECT_EQ(find_record(list_records(), path)->liveness, Liveness::kOrphan);
  const RemovedOrphans result = remove_orphans();
  EXPECT_TRUE(result.problems.empty());
  EXPECT_NE(find_record(result.removed, path), nullptr);
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::exists(living_path));
  living.stop(SIGKILL);
  fs::remove(living_path);
}

TEST(Orphans, APidUsedAgainOrFromAnotherNamespaceIsNotTheWriter) {
  const TempDir directory;
  const auto self = detail::this_process();
  const auto make = [&](std::uint64_t name_space, std::uint64_t start) {
    std::string path = directory.path + "/tessera-n" + std::to_string(name_space) + "-p" + std::to_string(self.pid) +
                       "-t" + std::to_string(start) + "-r0-0.record";
    std::ofstream(path) << "x";
    return path;
  };
  const std::string own = make(self.pid_namespace, self.start);
  const std::string earlier = make(self.pid_namespace, self.start - 1);
  const std::string foreign = make(self.pid_namespace + 1, self.start);
  std::ofstream(directory.path + "/tessera-of-somebody-else.record") << "x";
  const auto found = list_records(directory.path);
  EXPECT_EQ(found.size(), 3U);
  EXPECT_EQ(find_record(found, own)->liveness, Liveness::kAlive);
  EXPECT_EQ(find_record(found, earlier)->liveness, Liveness::kOrphan);
  EXPECT_EQ(find_record(found, foreign)->liveness, Liveness::kUnknown);
  EXPECT_EQ(remove_orphans(directory.path).removed.size(), 1U);
  EXPECT_TRUE(fs::exists(foreign));
  EXPECT_THROW(list_records(directory.path + "/none"), IoError);
}

TEST(Recorder, CleanExitRemovesTheFile) {
  Child child([](int to_parent) {
    setenv("TESSERA_RECORD_BYTES", "256KiB", 1);
    record(Ring::kComm, NumberedRecord::of(1));  // the recorder of the default rank, never destroyed
    send_line(to_parent, recorder().path());
  });
  const std::string path = child.line();
  EXPECT_FALSE(path.empty());
  EXPECT_EQ(child.wait(), 0);
  EXPECT_FALSE(fs::exists(path));
}

TEST(Recorder, AFailedRankKeepsItsFileWithoutARunDirectory) {
  Child child([](int to_parent) {
    Recorder recorder({}, small_options());
    recorder.save_failure("out of patience");
    recorder.write(Ring::kComm, NumberedRecord::of(5));
    send_line(to_parent, recorder.path());
  });
  const std::string path = child.line();
  child.wait();
  const RecordFile file = RecordFile::open(path);
  EXPECT_EQ(file.info().state, RecordState::kFailed);
  EXPECT_EQ(file.info().reason, "out of patience");
  EXPECT_EQ(file.records().size(), 1U);
  fs::remove(path);
}

TEST(Recorder, IsLinkedFromTheRunDirectoryAndCopiedThereAtTheEnd) {
  const TempDir run;
  std::string path;
  std::string link;
  {
    Recorder recorder({.rank = Rank{1}, .world_size = 2, .run_dir = run.path + "/made/for/it"}, small_options());
    recorder.write(Ring::kComm, NumberedRecord::of(1));
    path = recorder.path();
    link = recorder.run_path();
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_EQ(fs::path(link).filename().string().substr(0, 7), "rank-1.");
    EXPECT_EQ(RecordFile::open(link).records().size(), 1U);
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(fs::is_symlink(link));
  const RecordFile file = RecordFile::open(link);
  EXPECT_EQ(expect_whole_records(file), 1U);
  EXPECT_EQ(file.info().state, RecordState::kEnded);
  EXPECT_EQ(files_in(fs::path(link).parent_path().string()).size(), 1U);
}

TEST(Recorder, TakesTheRunDirectoryFromTheEnvironment) {
  const TempDir run;
  setenv("TESSERA_RUN_DIR", run.path.c_str(), 1);
  { const Recorder recorder({}, small_options()); }
  unsetenv("TESSERA_RUN_DIR");
  ASSERT_EQ(files_in(run.path).size(), 1U);
  EXPECT_EQ(RecordFile::open(files_in(run.path)[0]).info().state, RecordState::kEnded);
}

TEST(Recorder, AProcessWithAnExitCodeHasFailed) {
  const TempDir run;
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("TESSERA_RUN_DIR", run.path.c_str(), 1);
    (void)open_recorder(*current_rank(), small_options());
    std::exit(3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(files_in(run.path).size(), 1U);
  const RecordFile file = RecordFile::open(files_in(run.path)[0]);
  EXPECT_EQ(file.info().state, RecordState::kFailed);
  EXPECT_EQ(file.info().reason, "exited with 3");
}

TEST(Recorder, IsCopiedToTheRunDirectoryAtFailureAndThenGoesOn) {
  const TempDir run;
  Child child([&](int to_parent) {
    Recorder recorder({.run_dir = run.path}, small_options());
    recorder.write(Ring::kComm, NumberedRecord::of(1));
    recorder.save_failure("rank 1 did not arrive");
    recorder.write(Ring::kComm, NumberedRecord::of(2));
    send_line(to_parent, recorder.path());
    pause();
  });
  const std::string path = child.line();
  child.stop(SIGKILL);
  const RecordFile copy = RecordFile::open(files_in(run.path).at(0));
  EXPECT_EQ(copy.info().reason, "rank 1 did not arrive");
  EXPECT_EQ(copy.records().size(), 1U);
  EXPECT_EQ(RecordFile::open(path).records().size(), 2U);
  fs::remove(path);
}

TEST(Recorder, ARunDirectoryThatCannotBeMadeDoesNotStopRecording) {
  ::testing::internal::CaptureStderr();
  Recorder recorder({.run_dir = "/proc/no/such"}, small_options());
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(recorder.is_on());
  EXPECT_EQ(recorder.run_path(), "");
  EXPECT_NE(said.find("not linked from the run directory /proc/no/such"), std::string::npos) << said;
}

TEST(Recorder, AForkedChildLeavesTheParentsFileAlone) {
  Recorder recorder({}, small_options());
  recorder.write(Ring::kComm, NumberedRecord::of(1));
  Child child([&](int to_parent) {
    recorder.write(Ring::kComm, NumberedRecord::of(2));
    Recorder own({}, small_options());
    own.write(Ring::kComm, NumberedRecord::of(3));
    const bool is_right = !recorder.is_on() && own.is_on() && own.path() != recorder.path();
    send_line(to_parent, is_right ? recorder.status() : "wrong");
  });
  EXPECT_NE(child.line().find("belongs to the parent process of this fork"), std::string::npos);
  EXPECT_EQ(child.wait(), 0);
  ASSERT_TRUE(fs::exists(recorder.path()));
  recorder.write(Ring::kComm, NumberedRecord::of(4));
  EXPECT_EQ(RecordFile::open(recorder.path()).records().size(), 2U);
}

// No room.

detail::Allocate room_for(std::uint64_t most) {
  return [most](int fd, std::uint64_t nbytes) { return nbytes > most ? ENOSPC : detail::allocate_file(fd, nbytes); };
}

TEST(NoSpace, HalvesUntilItFits) {
  std::string status;
  const auto store = detail::RecordStore::create({.nbytes = 8 << 20}, {}, status, room_for(3 << 20));
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(store->header().file_bytes, 2U << 20);
  EXPECT_EQ(fs::file_size(store->path()), 2U << 20);
  EXPECT_NE(status.find("no room for 8192 KiB: No space left"), std::string::npos) << status;
  store->remove();
}

TEST(NoSpace, TurnsOffWhenNothingFits) {
  std::string status;
  EXPECT_EQ(detail::RecordStore::create({}, {}, status, room_for(1000)), nullptr);
  EXPECT_EQ(status.substr(0, 17), "recording is off:");
  EXPECT_NE(status.find("No space left"), std::string::npos) << status;
}

TEST(NoSpace, DoesAsTold) {
  std::string status;
  EXPECT_EQ(detail::RecordStore::create({.on_no_space = NoSpace::kOff}, {}, status, room_for(3 << 20)), nullptr);
  EXPECT_THROW(detail::RecordStore::create({.on_no_space = NoSpace::kFail}, {}, status, room_for(3 << 20)), IoError);
  for (const FoundRecord& record : list_records()) EXPECT_NE(record.pid, static_cast<std::uint64_t>(getpid()));
}

TEST(NoSpace, AFileSizeLimitIsAWordAndNotASignal) {
  Child child([](int to_parent) {
    const rlimit limit{600 * 1024, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    Recorder recorder({}, {.nbytes = 4 << 20});
    recorder.write(Ring::kComm, NumberedRecord::of(1));
    send_line(to_parent, recorder.status());
  });
  EXPECT_NE(child.line().find("recording 512 KiB"), std::string::npos);
  EXPECT_EQ(child.wait(), 0);
}

TEST(NoSpace, ADirectoryThatIsMissingOrNoTmpfsIsNamed) {
  ::testing::internal::CaptureStderr();
  const Recorder missing({}, {.directory = "/nonexistent"});
  EXPECT_FALSE(missing.is_on());
  EXPECT_NE(missing.status().find("/nonexistent: No such file"), std::string::npos) << missing.status();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "tessera: " + missing.status() + "\n");
  const Recorder unwritable({}, {.directory = "/proc"});
  EXPECT_FALSE(unwritable.is_on());
}

TEST(NoSpace, ATinyTmpfsIsFilledWithoutSigbus) {
  const TempDir directory;
  if (mount("tmpfs", directory.path.c_str(), "tmpfs", 0, "size=1m") != 0) GTEST_SKIP() << "mounting needs root";
  {
    Recorder recorder({}, {.nbytes = 32 << 20, .directory = directory.path});
    EXPECT_TRUE(recorder.is_on()) << recorder.status();
    for (std::uint64_t n = 0; n < 100'000; ++n) recorder.write(Ring::kComm, NumberedRecord::of(n));
    EXPECT_GT(expect_whole_records(RecordFile::open(recorder.path())), 0U);
    const Recorder second({}, {.nbytes = 32 << 20, .directory = directory.path});
    EXPECT_FALSE(second.is_on());
  }
  EXPECT_EQ(umount(directory.path.c_str()), 0);
}

}  // namespace
}  // namespace tessera::probe
