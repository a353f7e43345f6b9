// Rank processes: one is killed, one is stopped, one fails, one waits for them. Their run directory shows which.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tessera/analysis/read_run.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/comm/launch/launch.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/store/descriptor.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/testing/forked.h"
#include "tessera/comm/work.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"

namespace tessera::analysis {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 4;
constexpr int kWaits = 0;
constexpr int kKilled = 1;
constexpr int kStopped = 2;
constexpr int kFails = 3;

// Body of each rank: an operation of all, then its specific behavior.
[[noreturn]] void be_rank(int rank, const std::string& base) {
  comm::leave_out_what_the_parent_registered();
  ::setenv("TESSERA_RECORD_DIR", base.c_str(), 1);
  ::setenv("TESSERA_RUN_DIR", (base + "/run").c_str(), 1);
  ::setenv("TESSERA_RECORD_BYTES", "1MiB", 1);
  init({.rank = rank, .world_size = kRanks, .store = "file://" + base + "/store"});
  const device::Stream stream = device::Device::get("host").default_stream();
  float x = 1;
  comm::world().all_reduce(&x, &x, 1, DType::kF32, {}, stream).wait();
  comm::store()->set("ready" + std::to_string(rank), "");
  for (int other = 0; other < kRanks; ++other) (void)comm::store()->get("ready" + std::to_string(other), 60s);
  if (rank == kKilled) ::raise(SIGKILL);
  if (rank == kStopped) ::raise(SIGSTOP);
  if (rank == kFails) {
    try {
      throw std::runtime_error("the data ran out");
    } catch (const std::exception& error) {
      probe::recorder().save_failure(error.what());
    }
    std::exit(1);
  }
  comm::world().set_deadline(1h);
  comm::world().launch({.kind = comm::OpKind::kBarrier}, stream);
  for (;;) ::pause();
}

class ProcessesOfARun : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/dev/shm/tessera_read_run_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    base = name;
  }
  void TearDown() override {
    for (const pid_t process : processes) {
      if (process <= 0) continue;
      ::kill(process, SIGKILL);
      ::waitpid(process, nullptr, 0);
    }
    std::filesystem::remove_all(base);
  }
  std::string base;
  std::array<pid_t, kRanks> processes = {};
};

TEST_F(ProcessesOfARun, AreToldApartByHowTheyStand) {
  for (int rank = 0; rank < kRanks; ++rank) {
    pid_t& process = processes[static_cast<std::size_t>(rank)];
    process = ::fork();
    if (process == 0) be_rank(rank, base);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(processes[kKilled], &status, 0), processes[kKilled]);
  EXPECT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(::waitpid(processes[kFails], &status, 0), processes[kFails]);
  EXPECT_TRUE(WIFEXITED(status));
  ASSERT_EQ(::waitpid(processes[kStopped], &status, WUNTRACED), processes[kStopped]);
  EXPECT_TRUE(WIFSTOPPED(status));
  const pid_t killed = std::exchange(processes[kKilled], 0);
  processes[kFails] = 0;

  const auto waits = [](const Evidence& evidence) {
    const std::vector<Group>& groups = evidence.ranks.at(kWaits).groups;
    return !groups.empty() && groups[0].launches.size() == 2 && groups[0].launches[1].stage != Stage::kAsked;
  };
  Evidence evidence = read_run(base + "/run");
  while (!waits(evidence)) evidence = read_run(base + "/run");  // the operation needs a moment to start
  for (const std::string& problem : evidence.problems) ADD_FAILURE() << problem;
  ASSERT_EQ(evidence.ranks.size(), std::size_t{kRanks});
  EXPECT_EQ(evidence.ranks[kWaits].state, RankState::kRunning);
  EXPECT_EQ(evidence.ranks[kKilled].state, RankState::kDied);
  EXPECT_EQ(evidence.ranks[kKilled].pid, static_cast<std::uint64_t>(killed));
  EXPECT_EQ(evidence.ranks[kStopped].state, RankState::kStopped);
  EXPECT_EQ(evidence.ranks[kFails].state, RankState::kFailed);
  EXPECT_EQ(evidence.ranks[kFails].reason, "the data ran out");
  for (const Rank& rank : evidence.ranks) {
    ASSERT_EQ(rank.groups.size(), 1U) << rank.rank;
    EXPECT_EQ(rank.groups[0].name, "world");
    ASSERT_FALSE(rank.groups[0].launches.empty()) << rank.rank;
    EXPECT_EQ(rank.groups[0].launches[0].operations.at(0).kind, "all_reduce");
    EXPECT_EQ(rank.groups[0].launches[0].stage, Stage::kDone);
    EXPECT_EQ(rank.groups[0].launches.size(), rank.rank == kWaits ? 2U : 1U);
  }
  EXPECT_EQ(evidence.ranks[kWaits].groups[0].launches[1].operations.at(0).kind, "barrier");
}

// The command of the launcher: this program, for this case alone.
TEST(RankOfALauncher, DISABLED_EndsAsItIsTold) {
  init();
  const int rank = comm::world().rank();
  if (rank == 1) ::raise(SIGKILL);
  std::exit(rank == 2 ? 3 : 0);
}

TEST_F(ProcessesOfARun, EndAsTheirLauncherSays) {
  const comm::detail::Descriptor sink(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  ::setenv("TESSERA_RECORD_DIR", base.c_str(), 1);
  const comm::LaunchReport report =
      comm::launch({.command = {"/proc/self/exe", "--gtest_filter=RankOfALauncher.DISABLED_EndsAsItIsTold",
                                "--gtest_also_run_disabled_tests"},
                    .ranks = 3,
                    .on_failure = comm::OnFailure::kKeep,
                    .run_dir = base + "/run",
                    .out = sink.get(),
                    .err = sink.get()});
  ::unsetenv("TESSERA_RECORD_DIR");
  EXPECT_NE(report.exit_code, 0);
  const Evidence evidence = read_run(base + "/run");
  for (const std::string& problem : evidence.problems) ADD_FAILURE() << problem;
  ASSERT_EQ(evidence.ranks.size(), 3U);
  EXPECT_EQ(evidence.ranks[0].state, RankState::kEnded);
  EXPECT_EQ(evidence.ranks[1].state, RankState::kDied);
  EXPECT_EQ(evidence.ranks[1].signal, SIGKILL);
  EXPECT_EQ(evidence.ranks[2].state, RankState::kFailed);
  EXPECT_EQ(evidence.ranks[2].reason, "exited with 3");
}

TEST(ReadRunProcesses, ALauncherThatDiedIsTheReasonOfItsRanks) {
  std::string name = ::testing::TempDir() + "dead_launcher_XXXXXX";
  const std::string directory = ::mkdtemp(name.data());
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(gone, nullptr, 0), gone);
  const auto launched = [&](const std::string& head) {
    const std::string pid = std::to_string(gone);
    std::ofstream(directory + "/launch.json")
        << ("{\"ranks\": 2, \"host\": \"" + std::string(host) + "\", " + head +
            R"("starts": [{"time": "2020-01-01T00:00:00Z", "ranks": [{"rank": 0, "pid": )" + pid +
            R"(}, {"rank": 1, "pid": )" + std::to_string(::getpid()) + "}]}]}");
    return read_run(directory);
  };
  Evidence evidence = launched("\"launcher_pid\": " + std::to_string(gone) + ", ");
  EXPECT_EQ(evidence.ranks.at(0).ended_by, "the launcher died");
  EXPECT_EQ(evidence.ranks.at(0).signal, SIGKILL);
  EXPECT_EQ(evidence.ranks.at(1).ended_by, "") << "it runs";
  evidence = launched("\"exit_code\": 0, \"launcher_pid\": " + std::to_string(gone) + ", ");
  EXPECT_EQ(evidence.ranks.at(0).ended_by, "") << "it ended in order";
  evidence = launched("\"launcher_pid\": " + std::to_string(::getpid()) + ", ");
  EXPECT_EQ(evidence.ranks.at(0).ended_by, "") << "it runs";
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace tessera::analysis
