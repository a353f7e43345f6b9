// Ranks that do not see the run directories of others, or have none, agree on one verdict through the store; as forked
// processes and under mpirun. A store that is gone, or whose host is stopped, delays no rank.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <sstream>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/base/probe/annotation.h"
#include "tessera/base/rank.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/store/descriptor.h"
#include "tessera/comm/store/tcp_store_server.h"
#include "tessera/comm/testing/forked.h"
#include "tessera/comm/testing/mpirun.h"
#include "tessera/comm/world.h"
#include "tessera/watch/testing/ranks.h"
#include "tessera/watch/verdict_file.h"

namespace tessera::watch {
namespace {

using namespace std::chrono_literals;
using comm::ProcessGroup;

constexpr int kRanks = 3;
constexpr int kCulprit = 1;

ProcessGroup start_world() {
  ProcessGroup world = comm::world();
  for (int i = 0; i < 3; ++i) barrier(world);
  world.set_deadline(1200ms);  // longer than the threshold of recent activity
  return world;
}
// The culprit stays in an annotation, the others wait for it.
void stuck(int rank) {
  const ProcessGroup world = start_world();
  const probe::Annotation scope("checkpoint", 7);
  if (rank == kCulprit) be_stuck();
  barrier(world);
}

class SummariesOfRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/dev/shm/tessera_summaries_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    base = name;
    store = "file://" + base + "/store";
  }
  void TearDown() override { std::filesystem::remove_all(base); }

  [[nodiscard]] std::string run_dir(int rank) const { return base + "/run-" + std::to_string(rank); }
  [[nodiscard]] std::string said_path(int rank) const { return base + "/said-" + std::to_string(rank); }

  [[noreturn]] void be_rank(int rank, const std::function<void(int)>& body) const {
    comm::leave_out_what_the_parent_registered();
    ::setenv("TESSERA_RECORD_DIR", base.c_str(), 1);
    ::setenv("TESSERA_RECORD_BYTES", "1MiB", 1);
    if (has_run_dirs) ::setenv("TESSERA_RUN_DIR", run_dir(rank).c_str(), 1);
    const comm::detail::Descriptor said(
        ::open(said_path(rank).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0600));
    ::dup2(said.get(), STDERR_FILENO);
    int code = 0;
    try {
      init({.rank = rank, .world_size = kRanks, .store = store, .timeout = 60s});
      body(rank);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "end %s\n", error.what());
      code = 1;
    }
    std::exit(code);
  }
  // Runs the ranks until those in `waited_for` have ended, then kills the others.
  void run(const std::function<void(int)>& body, const std::vector<int>& waited_for) {
    std::fflush(nullptr);
    std::map<int, pid_t> processes;
    for (int rank = 0; rank < kRanks; ++rank) {
      const pid_t process = ::fork();
      if (process == 0) be_rank(rank, body);
      processes[rank] = process;
    }
    for (const int rank : waited_for) {
      ::waitpid(processes[rank], nullptr, 0);
      processes.erase(rank);
    }
    for (const auto& [rank, process] : processes) {
      if (is_told_before_the_end) wait_for_line(rank);
      ::kill(process, SIGKILL);
      ::waitpid(process, nullptr, 0);
    }
  }
  // Waits for the line of a rank.
  void wait_for_line(int rank) const {
    const auto until = std::chrono::steady_clock::now() + 30s;
    while (line_of(rank).empty() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  }
  // Returns the line of the watchdog of a rank; empty if none.
  [[nodiscard]] std::string line_of(int rank) const {
    const std::string head = "tessera: rank " + std::to_string(rank) + ": ";
    std::istringstream text(content(said_path(rank)));
    for (std::string line; std::getline(text, line);) {
      if (line.rfind(head, 0) == 0) return line.substr(head.size());
    }
    return "";
  }

  std::string base;
  std::string store;
  bool has_run_dirs = true;
  bool is_told_before_the_end = true;
};

TEST_F(SummariesOfRanks, RanksWithDirectoriesOfTheirOwnComeToOneVerdict) {
  run(stuck, {0, 2});
  const std::string line = line_of(0);
  const std::string sentence = line.substr(0, line.find("; see "));
  EXPECT_EQ(sentence.rfind("rank 1 did not reach collective 4 of group world", 0), 0U) << line;
  EXPECT_NE(sentence.find("checkpoint=7"), std::string::npos)
      << "the mark of a rank that only it has recorded: " << line;
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(line_of(rank), sentence + "; see " + run_dir(rank) + "/explain.txt");
    const std::optional<Report> report = find_report(run_dir(rank));
    ASSERT_TRUE(report.has_value()) << rank;
    EXPECT_EQ(report->sentence, sentence);
    EXPECT_EQ(report->fault, "absent");
    EXPECT_NE(content(run_dir(rank) + "/explain.txt").find("verdict: " + sentence), std::string::npos);
  }
}

TEST_F(SummariesOfRanks, RanksWithoutDirectoriesComeToOneVerdict) {
  has_run_dirs = false;
  run(stuck, {0, 2});
  EXPECT_EQ(line_of(0).rfind("rank 1 did not reach collective 4 of group world", 0), 0U) << line_of(0);
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(line_of(rank), line_of(0));
  EXPECT_EQ(line_of(0).find("; see "), std::string::npos) << line_of(0);
}

TEST_F(SummariesOfRanks, ARankThatFailedLeavesItsReason) {
  run(
      [](int rank) {
        const ProcessGroup world = start_world();
        if (rank == kCulprit) std::exit(3);
        barrier(world);
      },
      {0, 1, 2});
  EXPECT_EQ(line_of(0).rfind("rank 1 failed: exited with 3", 0), 0U) << line_of(0);
  EXPECT_EQ(line_of(2).rfind("rank 1 failed: exited with 3", 0), 0U) << line_of(2);
}

TEST_F(SummariesOfRanks, ARankThatEndedSoonerIsNamed) {
  run(
      [](int rank) {
        const ProcessGroup world = start_world();
        if (rank != kCulprit) barrier(world);
      },
      {0, 1, 2});
  EXPECT_EQ(line_of(0).rfind("rank 1 ended normally without reaching collective 4", 0), 0U) << line_of(0);
  EXPECT_EQ(line_of(2).substr(0, line_of(2).find("; see ")), line_of(0).substr(0, line_of(0).find("; see ")));
}

TEST_F(SummariesOfRanks, AStoreWhoseHostIsStoppedHoldsUpNobody) {
  // Rank 0 hosts it, at a port that was free a moment ago.
  store = "tcp://127.0.0.1:" + std::to_string(comm::TcpStoreServer({.secret = "free port"}).port());
  is_told_before_the_end = false;
  run(
      [](int rank) {
        const ProcessGroup world = start_world();
        if (rank == 0) ::raise(SIGSTOP);
        barrier(world);
      },
      {1, 2});
  for (const int rank : {1, 2}) {
    const std::string said = content(said_path(rank));
    EXPECT_NE(line_of(rank), "") << said;
    EXPECT_LT(said.find("tessera: rank "), said.find("end timeout")) << "told before it is thrown: " << said;
  }
}

// Under mpirun, with a separate directory for each rank.
TEST_F(SummariesOfRanks, TravelUnderMpirun) {
  constexpr const char* kIsRank = "WATCH_SUMMARIES_RANK";
  if (const char* directory = std::getenv(kIsRank)) {
    const std::string place = std::getenv("OMPI_COMM_WORLD_RANK");
    ::setenv("TESSERA_RUN_DIR", (std::string(directory) + "/run-" + place).c_str(), 1);
    ::setenv("TESSERA_RECORD_BYTES", "1MiB", 1);
    init({.timeout = 60s});
    const ProcessGroup world = start_world();
    const probe::Annotation scope("checkpoint", 7);
    if (current_place().rank.value() == kCulprit) {
      // Until its own watchdog has reported it.
      while (!find_report(std::getenv("TESSERA_RUN_DIR"))) std::this_thread::yield();
    } else {
      EXPECT_THROW(barrier(world), TimeoutError);
      // Rank 0 hosts the store: no rank may end before all have the verdict.
      while (!find_report(std::string(directory) + "/run-1")) std::this_thread::yield();
    }
    return;
  }
  if (comm::find_mpirun().empty()) GTEST_SKIP() << "no mpirun on PATH";
  std::vector<std::string> command = comm::mpirun_command(kRanks, 100);
  command.insert(command.end(), {std::filesystem::read_symlink("/proc/self/exe"),
                                 "--gtest_filter=SummariesOfRanks.TravelUnderMpirun", "--gtest_brief=1"});
  const comm::CommandEnd end =
      comm::run_command(command, {std::string(kIsRank) + "=" + base, "ASAN_OPTIONS=detect_leaks=0",
                                  "TSAN_OPTIONS=ignore_noninstrumented_modules=1 report_thread_leaks=0"});
  EXPECT_EQ(end.exit_code, 0) << end.output;
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::string words = "tessera: rank " + std::to_string(rank) + ": rank 1 did not reach collective 4";
    EXPECT_NE(end.output.find(words), std::string::npos) << end.output;
  }
}

}  // namespace
}  // namespace tessera::watch
