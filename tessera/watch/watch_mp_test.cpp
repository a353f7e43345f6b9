// The watchdog over rank processes under the launcher: a rank that is absent, stopped, killed or stuck, and the report
// of each, by the ranks that can report and by the launcher for the others.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <sstream>
#include <thread>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/probe/reader.h"
#include "tessera/base/rank.h"
#include "tessera/comm/launch/launch.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/smaller_world.h"
#include "tessera/comm/store/descriptor.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/world.h"
#include "tessera/watch/detail/watchdog.h"
#include "tessera/watch/testing/ranks.h"
#include "tessera/watch/verdict_file.h"
#include "tessera/watch/watchdog.h"

namespace tessera::watch {
namespace {

using namespace std::chrono_literals;
using comm::LaunchOptions;
using comm::LaunchReport;
using comm::OnFailure;
using comm::ProcessGroup;

constexpr int kRanks = 3;
constexpr int kCulprit = 1;

// Output of the launcher, for a rank that waits for its message.
constexpr const char* kErrors = "WATCH_ERRORS";

// Text of the line about a late rank.
constexpr const char* kLate = "s for rank 1 in collective 2 of group world (barrier";

// Text of ranks that did not create the report; a string, for concatenation.
const std::string kReported = "another rank reported a failure";

int rank() { return current_place().rank.value(); }
ProcessGroup start(std::chrono::nanoseconds deadline) {
  init({.timeout = 60s});
  ProcessGroup world = comm::world();
  barrier(world);
  world.set_deadline(deadline);
  return world;
}
// Returns when the report exists.
void wait_for_report() {
  const std::string path = std::string(std::getenv("TESSERA_RUN_DIR")) + "/explain.json";
  while (::access(path.c_str(), F_OK) != 0) std::this_thread::yield();
}

// In the original world, and again in the shrunk world.
void be_killed_twice() {
  const ProcessGroup world = start(60s);
  if (rank() == kCulprit) ::raise(SIGKILL);
  EXPECT_THROW(barrier(world), AbortedError);
  const comm::SmallerWorld smaller(comm::agree_on_left("a rank died", 60s), 60s);
  barrier(comm::world());
  if (rank() == 1) ::raise(SIGKILL);  // it was rank 2
  barrier(comm::world());
}

// It arrives after the others have reported that they wait for it.
void be_late() {
  detail::Watchdog::of_process()->set_notice_delays({.first = 200ms, .next = 200ms});
  const ProcessGroup world = start(60s);
  while (rank() == kCulprit && content(std::getenv(kErrors)).find(kLate) == std::string::npos)
    std::this_thread::yield();
  barrier(world);
}

// Programs of the ranks, by the name of the case.
const std::map<std::string, std::function<void()>>& programs() {
  static const std::map<std::string, std::function<void()>> all = {
      {"well",
       [] {
         const ProcessGroup world = start(60s);
         for (int i = 0; i < 10; ++i) barrier(world);
       }},
      {"stuck",
       [] {
         const ProcessGroup world = start(500ms);
         if (rank() == kCulprit) be_stuck();
         barrier(world);
       }},
      {"late", be_late},
      {"stopped",
       [] {
         const ProcessGroup world = start(500ms);
         if (rank() == kCulprit) ::raise(SIGSTOP);
         barrier(world);
       }},
      {"stopped alone",
       [] {
         const ProcessGroup world = start(60s);
         if (rank() == kCulprit) {
           comm::store()->set("pid", std::to_string(::getpid()));
           ::raise(SIGSTOP);
         } else if (rank() == 0) {
           // It is continued after the launcher has reported it.
           const int pid = std::stoi(comm::store()->get("pid", 60s));
           while (content(std::getenv(kErrors)).find("does not run") == std::string::npos) std::this_thread::yield();
           ::kill(pid, SIGCONT);
         }
         barrier(world);
       }},
      {"killed",
       [] {
         const ProcessGroup world = start(60s);
         if (rank() == kCulprit) ::raise(SIGKILL);
         barrier(world);
       }},
      {"killed twice", be_killed_twice},
      {"killed while others are busy",
       [] {
         const ProcessGroup world = start(60s);
         if (rank() == kCulprit) ::raise(SIGKILL);
         be_stuck();
       }},
      {"never reaches init",
       [] {
         if (std::string(std::getenv("RANK")) == std::to_string(kCulprit)) be_stuck();
         init({.timeout = 1s});
       }},
      {"never reaches the world",
       [] {
         init({.timeout = 60s});
         if (rank() == kCulprit) be_stuck();
         const std::vector<Rank> everyone = {Rank(0), Rank(1), Rank(2)};
         (void)comm::group_of(everyone, {.deadline = 500ms});
       }},
      {"throws",
       [] {
         const ProcessGroup world = start(60s);
         TESSERA_CHECK(rank() != kCulprit, "has had enough");
         barrier(world);
       }},
      {"terminates",
       [] {
         const ProcessGroup world = start(60s);
         if (rank() == kCulprit) std::thread([] { throw std::runtime_error("nobody is there to catch this"); }).join();
         barrier(world);
       }},
      {"at the end",
       [] {
         const ProcessGroup world = start(500ms);
         static const ProcessGroup kept = world;
         if (rank() == kCulprit) wait_for_report();
         if (rank() != kCulprit) std::atexit([] { EXPECT_ANY_THROW(barrier(kept)); });
       }},
      {"waits",
       [] {
         const ProcessGroup world = start(500ms);
         if (rank() == kCulprit) wait_for_report();
         barrier(world);
       }},
      {"exits",
       [] {
         const ProcessGroup world = start(500ms);
         if (rank() == kCulprit) be_stuck();
         barrier(world);
       }},
  };
  return all;
}

// The command of the launcher: this program, for this case alone.
constexpr const char* kProgram = "WATCH_PROGRAM";
TEST(WatchedRank, DISABLED_OfALauncher) {
  const char* name = std::getenv(kProgram);
  if (name == nullptr) GTEST_SKIP() << "started by the cases below";
  int code = 0;
  try {
    programs().at(name)();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "end %s\n", error.what());
    code = 1;
  }
  std::exit(code);
}

class Watched : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/dev/shm/tessera_watch_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    base = name;
    run_dir = base + "/run";
  }
  void TearDown() override { std::filesystem::remove_all(base); }

  LaunchReport run(const char* program, const std::function<void(LaunchOptions&)>& change = {}) {
    const comm::detail::Descriptor out(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    const comm::detail::Descriptor err(::open((base + "/err").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND, 0600));
    ::setenv(kProgram, program, 1);
    ::setenv(kErrors, (base + "/err").c_str(), 1);
    ::setenv("TESSERA_RECORD_DIR", base.c_str(), 1);
    ::setenv("TESSERA_RECORD_BYTES", "1MiB", 1);
    LaunchOptions options{.command = {"/proc/self/exe", "--gtest_filter=WatchedRank.DISABLED_OfALauncher",
                                      "--gtest_also_run_disabled_tests"},
                          .ranks = kRanks,
                          .run_dir = run_dir,
                          .verdict = verdict_of_run,
                          .out = out.get(),
                          .err = err.get()};
    if (change) change(options);
    LaunchReport report = comm::launch(options);
    ::unsetenv(kProgram);
    ::unsetenv("TESSERA_RECORD_DIR");
    ::unsetenv("TESSERA_ON_HANG");
    said = content(base + "/err");
    return report;
  }
  // Returns the number of lines that contain these words.
  [[nodiscard]] std::size_t count(const std::string& words) const {
    std::size_t found = 0;
    std::istringstream text(said);
    for (std::string line; std::getline(text, line);) found += line.find(words) != std::string::npos ? 1 : 0;
    return found;
  }
  // Expects one line of each running rank, one of them with the verdict of the report, and one of the launcher.
  void expect_told_by(const std::vector<int>& ranks, const std::string& words) const {
    const std::optional<Report> report = find_report(run_dir);
    ASSERT_TRUE(report.has_value()) << said;
    EXPECT_NE(report->sentence.find(words), std::string::npos) << report->sentence << "\n" << said;
    const std::string see = "; see " + run_dir + "/explain.txt";
    for (int each = 0; each < kRanks; ++each) {
      const std::string line = "[" + std::to_string(each) + "] tessera: rank " + std::to_string(each) + ": ";
      const bool tells = std::ranges::find(ranks, each) != ranks.end();
      EXPECT_EQ(count(line), tells ? 1u : 0u) << line << "\n" << said;
      EXPECT_EQ(count(line + report->sentence + see) + count(line + kReported + see), tells ? 1u : 0u) << said;
    }
    EXPECT_EQ(count(kReported + see), ranks.size() - 1) << said;
    EXPECT_EQ(count("tessera run: " + report->sentence), 1u) << said;
  }
  [[nodiscard]] probe::FileInfo record_of(int number) const {
    for (const auto& entry : std::filesystem::directory_iterator(run_dir)) {
      const std::string name = entry.path().filename().string();
      if (name.rfind("rank-" + std::to_string(number) + ".", 0) != 0) continue;
      return probe::RecordFile::open(entry.path().string()).info();
    }
    ADD_FAILURE() << "no record of rank " << number;
    return {};
  }

  std::string base;
  std::string run_dir;
  std::string said;
};

TEST_F(Watched, ARankThatIsLateIsNamedByARankThatWaits) {
  EXPECT_EQ(run("late").exit_code, 0) << said;
  EXPECT_GE(count(kLate), 1u) << said;
  EXPECT_FALSE(find_report(run_dir).has_value()) << "it is no error";
}

TEST(WaitLine, WithoutRecordsTheFirstTwoRanksSpeak) {
  detail::LongWait wait{
      .rank = 4, .group = "half", .ranks = {4, 6, 7}, .operation = "barrier", .waited = 10s, .run_dir = ""};
  EXPECT_EQ(detail::wait_line(wait, {}), "waiting 10 s for other ranks in barrier of group half");
  wait.rank = 6;
  EXPECT_EQ(detail::wait_line(wait, {}), "waiting 10 s for other ranks in barrier of group half");
  wait.rank = 7;
  EXPECT_EQ(detail::wait_line(wait, {}), "");
}

TEST_F(Watched, ARunThatGoesWellIsNotTalkedAbout) {
  EXPECT_EQ(run("well").exit_code, 0);
  EXPECT_EQ(said, "");
  EXPECT_FALSE(std::filesystem::exists(run_dir + "/explain.txt"));
}

TEST_F(Watched, ARankStuckInHostCodeIsNamedByAllEvenByItself) {
  EXPECT_EQ(run("stuck").exit_code, 1);
  expect_told_by({0, 1, 2}, "rank 1");
}

TEST_F(Watched, OfAStoppedRankTheLauncherSpeaks) {
  EXPECT_EQ(run("stopped").exit_code, 1);
  expect_told_by({0, 2}, "rank 1");
  EXPECT_EQ(count("cannot report: stopped (SIGSTOP)"), 1u) << said;
}

TEST_F(Watched, AHeartbeatThatStandsStillIsTold) {
  const auto end = [&](LaunchOptions& options) {
    options.patience = 1s;
    options.grace = 100ms;
  };
  EXPECT_EQ(run("stopped alone", end).exit_code, 0);
  EXPECT_EQ(count("does not run: stopped (SIGSTOP)"), 1u) << said;
  EXPECT_EQ(count("rank 1 (process "), 1u) << said;
}

TEST_F(Watched, AKilledRankIsNamedByTheOthers) {
  EXPECT_EQ(run("killed").exit_code, 128 + SIGKILL);
  expect_told_by({0, 2}, "rank 1");
}

TEST_F(Watched, AKilledRankIsNamedThoughTheOthersAreBusy) {
  EXPECT_EQ(run("killed while others are busy").exit_code, 128 + SIGKILL);
  const std::optional<Report> report = find_report(run_dir);
  ASSERT_TRUE(report.has_value()) << said;
  EXPECT_NE(report->sentence.find("rank 1"), std::string::npos) << report->sentence;
  EXPECT_EQ(count("tessera run: " + report->sentence), 1u) << said;
}

TEST_F(Watched, ASmallerWorldIsWatchedLikeTheOneBefore) {
  EXPECT_EQ(run("killed twice", [](LaunchOptions& options) { options.on_failure = OnFailure::kKeep; }).exit_code, 137);
  EXPECT_EQ(count("[2] tessera: rank 2: rank 1 ") + count("[0] tessera: rank 0: rank 1 "), 1u) << said;
  EXPECT_EQ(count(kReported), 1u) << said;
  EXPECT_EQ(count("[0] tessera: rank 0: in the shrunk world of 2 ranks, rank 1 "), 1u) << said;
  EXPECT_EQ(count("] tessera: rank "), 3u) << "each remaining rank reports each failure once\n" << said;
  const std::string report = content(run_dir + "/explain.txt");
  EXPECT_NE(report.find(": 2 ranks\n"), std::string::npos) << report;
  const nlohmann::json json = nlohmann::json::parse(content(run_dir + "/explain.json"));
  EXPECT_EQ(json.at("ranks").size(), 2u);
  EXPECT_EQ(json.at("verdict").at("fault"), "died");
  EXPECT_EQ(json.at("verdict").at("culprits"), nlohmann::json::array({1}));
}

TEST_F(Watched, ARankThatNeverComesToInitIsNamed) {
  EXPECT_EQ(run("never reaches init").exit_code, 1);
  const std::optional<Report> report = find_report(run_dir);
  ASSERT_TRUE(report.has_value()) << said;
  EXPECT_EQ(count("[0] tessera: rank 0: "), 1u) << said;
  EXPECT_EQ(count("[2] tessera: rank 2: "), 1u) << said;
}

TEST_F(Watched, ARankThatNeverComesToAGroupIsNamed) {
  EXPECT_EQ(run("never reaches the world").exit_code, 1);
  EXPECT_EQ(count("[0] tessera: rank 0: "), 1u) << said;
  EXPECT_EQ(count("[1] tessera: rank 1: "), 1u) << said;
}

TEST_F(Watched, ItHoldsAtTheEndOfTheProcess) {
  (void)run("at the end");
  EXPECT_TRUE(find_report(run_dir).has_value()) << said;
}

TEST_F(Watched, ARankThatThrewLeavesItsRecordWithTheReason) {
  EXPECT_EQ(run("throws").exit_code, 1);
  const probe::FileInfo info = record_of(kCulprit);
  EXPECT_EQ(info.state, probe::RecordState::kFailed);
  EXPECT_EQ(info.reason, "exited with 1");
  EXPECT_TRUE(record_of(0).reason.rfind("exited with 1 after: group world", 0) == 0) << record_of(0).reason;
}

TEST_F(Watched, AnExceptionThatNobodyCaughtIsInTheRecord) {
  EXPECT_EQ(run("terminates").exit_code, 128 + SIGABRT);
  const probe::FileInfo info = record_of(kCulprit);
  EXPECT_EQ(info.state, probe::RecordState::kFailed);
  EXPECT_EQ(info.reason, "uncaught exception: nobody is there to catch this");
}

TEST_F(Watched, WhoIsToldToWaitWaitsOn) {
  ::setenv("TESSERA_ON_HANG", "wait", 1);
  EXPECT_EQ(run("waits").exit_code, 0) << said;
  EXPECT_TRUE(find_report(run_dir).has_value()) << said;
}

TEST_F(Watched, WhoIsToldToExitExitsWith124) {
  ::setenv("TESSERA_ON_HANG", "exit", 1);
  EXPECT_EQ(run("exits").exit_code, kExitOnHang);
  expect_told_by({0, 1, 2}, "rank 1");
}

TEST_F(Watched, AReportOfAStartBeforeIsSetAside) {
  EXPECT_EQ(run("stuck", [](LaunchOptions& options) { options.restarts = 1; }).exit_code, 1);
  EXPECT_TRUE(std::filesystem::exists(run_dir + "/explain.1.txt"));
  EXPECT_TRUE(std::filesystem::exists(run_dir + "/explain.txt"));
  EXPECT_EQ(count("[0] tessera: rank 0: "), 2u) << said;
}

}  // namespace
}  // namespace tessera::watch
