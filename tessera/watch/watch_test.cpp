// The watchdog over ranks that are threads: its states, its lines and their number, and the reactions.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <latch>
#include <optional>
#include <sstream>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/probe/table_view.h"
#include "tessera/base/rank.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/watch/detail/watchdog.h"
#include "tessera/watch/verdict_file.h"
#include "tessera/watch/watchdog.h"

namespace tessera::watch {
namespace {

using namespace std::chrono_literals;
using comm::OnHang;
using comm::OpKind;
using comm::ProcessGroup;

device::Stream stream() { return device::Device::get("host").default_stream(); }
int rank() { return current_place().rank.value(); }
void barrier(const ProcessGroup& group) { group.launch({.kind = OpKind::kBarrier}, stream()).wait(); }

// Long after anything that works has happened.
constexpr auto kNever = 60s;

// Waits until a condition holds. Returns false if it never does.
template <class Is>
bool comes(Is&& is) {
  const auto until = std::chrono::steady_clock::now() + kNever;
  while (!is()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

std::optional<GroupStanding> standing_of(int rank, const std::string& group) {
  for (const GroupStanding& each : standing()) {
    if (each.rank == rank && each.group == group) return each;
  }
  return std::nullopt;
}
bool stands(int rank, const std::string& group, GroupPhase standing) {
  const std::optional<GroupStanding> found = standing_of(rank, group);
  return found && found->standing == standing;
}

class Watch : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/dev/shm/tessera_watch_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    run_dir = name;
  }
  void TearDown() override { std::filesystem::remove_all(run_dir); }

  // Runs the ranks and returns the lines of the watchdog on stderr.
  std::vector<std::string> told(int ranks, const std::function<void()>& body, bool has_run_dir = true,
                                std::optional<std::uint64_t> seed = {}) {
    said_before = detail::Watchdog::of_process()->said();
    ::testing::internal::CaptureStderr();
    try {
      simulate(ranks, body, {.seed = seed, .run_dir = has_run_dir ? run_dir : ""});
    } catch (const std::exception& error) {
      failure = error.what();
    }
    std::vector<std::string> lines;
    std::istringstream text(::testing::internal::GetCapturedStderr());
    for (std::string line; std::getline(text, line);) {
      if (line.rfind("tessera: rank ", 0) == 0) lines.push_back(line);
    }
    return lines;
  }
  // Waits until the report exists and was printed.
  void wait_for_report() const {
    EXPECT_TRUE(comes([&] { return std::filesystem::exists(run_dir + "/explain.json"); }));
    EXPECT_TRUE(comes([&] { return detail::Watchdog::of_process()->said() > said_before; }));
  }
  std::string report(const char* name) const {
    std::stringstream text;
    text << std::ifstream(run_dir + "/" + name).rdbuf();
    return text.str();
  }

  std::string run_dir;
  std::string failure;
  std::uint64_t said_before = 0;
};

TEST_F(Watch, TellsWaitingForAPeerFromBeingIdleAndFromWhatNobodyNoticed) {
  std::latch seen(2);
  std::atomic<bool> waits{false};
  simulate(2, [&] {
    const ProcessGroup world = comm::world();
    barrier(world);
    EXPECT_TRUE(stands(rank(), "world", GroupPhase::kIdle));
    seen.arrive_and_wait();
    if (rank() == 0) {
      const device::Stream side = device::Device::get("host").create_stream();
      const comm::Work work = world.launch({.kind = OpKind::kBarrier}, side);
      EXPECT_TRUE(comes([] { return stands(0, "world", GroupPhase::kPeer); }));
      EXPECT_EQ(standing_of(0, "world")->operation, "barrier");
      waits = true;
      EXPECT_TRUE(comes([&] { return work.is_done(); }));
      EXPECT_TRUE(comes([] { return stands(0, "world", GroupPhase::kUnnoticed); }));
      work.wait();
      EXPECT_TRUE(stands(0, "world", GroupPhase::kIdle));
    } else {
      EXPECT_TRUE(comes([&] { return waits.load(); }));
      barrier(world);
    }
  });
}

TEST_F(Watch, TellsWaitingBehindItsOwnStream) {
  std::latch together(2);
  simulate(2, [&] {
    const ProcessGroup world = comm::world();
    if (rank() == 0) {
      const device::Stream side = device::Device::get("host").create_stream();
      std::atomic<bool> goes_on{false};
      side.run([&] { goes_on.wait(false); });
      const comm::Work work = world.launch({.kind = OpKind::kBarrier}, side);
      EXPECT_TRUE(stands(0, "world", GroupPhase::kOwnStream));
      goes_on = true;
      goes_on.notify_all();
      work.wait();
    } else {
      barrier(world);
    }
    together.arrive_and_wait();
  });
  EXPECT_TRUE(standing().empty()) << "groups that are gone are not looked at";
}

TEST_F(Watch, ADeadlineIsToldInOneLineAndReportedInFull) {
  const std::vector<std::string> lines = told(3, [this] {
    const ProcessGroup world = comm::world();
    barrier(world);
    world.set_deadline(300ms);
    if (rank() == 1) wait_for_report();
    if (rank() != 1) barrier(world);
  });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("; see " + run_dir + "/explain.txt"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("rank 1"), std::string::npos) << lines[0];
  EXPECT_FALSE(std::filesystem::exists(run_dir + "/explain.claim"));
  const std::optional<Report> found = find_report(run_dir);
  ASSERT_TRUE(found.has_value()) << report("explain.json");
  EXPECT_NE(lines[0].find(found->sentence), std::string::npos) << lines[0];
  EXPECT_NE(report("explain.txt").find(found->sentence), std::string::npos) << report("explain.txt");
}

TEST_F(Watch, WithoutARunDirectoryTheLineHasTheWordsOfTheFailure) {
  const std::vector<std::string> lines = told(
      2,
      [] {
        const ProcessGroup world = comm::world();
        world.set_deadline(200ms);
        if (rank() == 0) barrier(world);
      },
      /*has_run_dir=*/false);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("group world: operation 1, barrier: rank 1 "), std::string::npos) << lines[0];
  EXPECT_EQ(lines[0].find("; see"), std::string::npos) << lines[0];
}

TEST_F(Watch, RanksThatDifferAndRanksThatLeaveAreTold) {
  std::vector<std::string> lines = told(
      3, [] { comm::world().launch({.kind = rank() == 1 ? OpKind::kRendezvous : OpKind::kBarrier}, stream()).wait(); });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("rank 1"), std::string::npos) << lines[0];
  // In a separate directory: within a tick of the file system clock, the first report would pass as the second.
  TearDown();
  SetUp();
  lines = told(3, [] {
    const ProcessGroup world = comm::world();
    barrier(world);
    TESSERA_CHECK(rank() != 2, "has had enough");
    barrier(world);
  });
  ASSERT_EQ(lines.size(), 1u) << "another simulation is reported again";
  EXPECT_NE(lines[0].find("rank 2"), std::string::npos) << lines[0];
}

TEST_F(Watch, SeededRanksAreWatchedToo) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const std::vector<std::string> lines = told(
        3,
        [] {
          const ProcessGroup world = comm::world();
          barrier(world);
          if (rank() != 1) barrier(world);
        },
        /*has_run_dir=*/true, seed);
    ASSERT_EQ(lines.size(), 1u) << "seed " << seed;
    EXPECT_FALSE(failure.empty());
  }
}

TEST_F(Watch, NothingIsSaidOfARunThatGoesWell) {
  EXPECT_TRUE(told(4, [] {
                for (int i = 0; i < 100; ++i) barrier(comm::world());
              }).empty());
  EXPECT_FALSE(std::filesystem::exists(run_dir + "/explain.txt"));
}

TEST_F(Watch, WhoWaitsOnIsToldOfTheDeadlineAndThenGoesOn) {
  const std::vector<std::string> lines = told(2, [this] {
    const std::vector<int> both = {0, 1};
    const ProcessGroup group = comm::world().subgroup(both, {.name = "patient", .on_hang = OnHang::kWait});
    group.set_deadline(200ms);
    if (rank() == 1) wait_for_report();
    barrier(group);
  });
  EXPECT_EQ(failure, "");
  ASSERT_EQ(lines.size(), 1u);
}

TEST_F(Watch, WhoWaitsOnIsToldOfEveryTimeThatItWaits) {
  const std::vector<std::string> lines = told(2, [this] {
    const std::vector<int> both = {0, 1};
    const ProcessGroup group = comm::world().subgroup(both, {.name = "patient", .on_hang = OnHang::kWait});
    group.set_deadline(200ms);
    for (const std::uint64_t times : {1, 2}) {
      if (rank() == 1) {
        EXPECT_TRUE(comes([&] { return detail::Watchdog::of_process()->said() >= said_before + times; }));
      }
      barrier(group);
    }
  });
  EXPECT_EQ(failure, "");
  ASSERT_EQ(lines.size(), 2u);
}

TEST_F(Watch, AnOperationThatDoesNotBeginIsToldOf) {
  const std::vector<std::string> lines = told(2, [this] {
    const ProcessGroup world = comm::world();
    barrier(world);
    if (rank() == 0) {
      world.set_deadline(200ms);
      const device::Stream side = device::Device::get("host").create_stream();
      side.run([this] { wait_for_report(); });
      world.launch({.kind = OpKind::kBarrier}, side).wait();
    } else {
      barrier(world);
    }
  });
  EXPECT_EQ(failure, "");
  ASSERT_EQ(lines.size(), 1u);
}

TEST_F(Watch, AnExtensionOfTheDeadlineCoversAnOperationThatHasNotBegun) {
  const std::vector<std::string> lines = told(2, [this] {
    const ProcessGroup world = comm::world();
    barrier(world);
    if (rank() == 0) {
      world.set_deadline(100ms);
      const device::Stream side = device::Device::get("host").create_stream();
      side.run([this] { wait_for_report(); });
      const comm::Work work = world.launch({.kind = OpKind::kBarrier}, side);
      world.extend_deadline(150ms);
      work.wait();
      world.set_deadline(1min);
    } else {
      barrier(world);
    }
  });
  EXPECT_EQ(failure, "");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE((lines[0] + report("explain.txt")).find("0.25 s (a deadline of 0.1 s, extended by 0.15 s)"),
            std::string::npos)
      << lines[0] << report("explain.txt");
}

// Rank 2 waits for rank 0 in a separate group, for minutes, while rank 0 learns that rank 1 is absent.
TEST_F(Watch, AbortEndsTheOtherGroupsOfTheRank) {
  std::atomic<int> ended{0};
  (void)told(3, [&] {
    const ProcessGroup world = comm::world();
    const std::vector<int> first = {0, 1};
    const std::vector<int> second = {0, 2};
    const ProcessGroup strict = world.subgroup(first, {.name = "strict", .on_hang = OnHang::kAbort});
    const ProcessGroup other = world.subgroup(second, {.name = "other"});
    if (rank() != 1) {
      if (rank() == 0) strict.set_deadline(200ms);
      EXPECT_ANY_THROW(barrier(rank() == 0 ? strict : other));
      ++ended;
    }
    EXPECT_TRUE(comes([&] { return ended == 2; }));
  });
  EXPECT_EQ(ended, 2);
}

TEST_F(Watch, ARankThatFailsLeavesItsRecordWithTheReason) {
  (void)told(2, [] { TESSERA_CHECK(rank() != 1, "has had enough"); });
  bool found = false;
  for (const auto& entry : std::filesystem::directory_iterator(run_dir)) {
    if (entry.path().filename().string().rfind("rank-1.", 0) != 0) continue;
    const probe::RecordFile file = probe::RecordFile::open(entry.path().string());
    EXPECT_EQ(file.info().state, probe::RecordState::kFailed);
    EXPECT_NE(file.info().reason.find("has had enough"), std::string::npos) << file.info().reason;
    found = true;
  }
  EXPECT_TRUE(found);
}

TEST_F(Watch, OneOfManyMakesTheReport) {
  EXPECT_TRUE(claim_report(run_dir));
  EXPECT_FALSE(claim_report(run_dir));
  release_claim(run_dir);
  EXPECT_TRUE(claim_report(run_dir));
  EXPECT_TRUE(claim_report(run_dir, mark_report(run_dir))) << "a report of an earlier run does not count";
}

TEST_F(Watch, AReportThatWasThereBeforeIsNotNew) {
  const auto write = [&](int world_size) {
    write_file(run_dir + "/explain.json", "{\"world_size\": " + std::to_string(world_size) +
                                              ", \"verdict\": {\"fault\": \"died\", \"sentence\": \"it died\"}}");
  };
  for (int i = 0; i < 20; ++i) {
    write(3);
    ReportMark annotation = mark_report(run_dir);
    ASSERT_FALSE(find_report(run_dir, annotation).has_value()) << "it was written in the same tick of the clock";
    write(3);
    ASSERT_TRUE(find_report(run_dir, annotation).has_value());
    annotation.world_size = 3;
    ASSERT_TRUE(find_report(run_dir, annotation).has_value());
    annotation.world_size = 2;
    ASSERT_FALSE(find_report(run_dir, annotation).has_value()) << "a late report on the larger world";
  }
}

TEST_F(Watch, NoVerdictOnADirectoryWithoutRecords) {
  EXPECT_EQ(verdict_of_run(run_dir), "");
  EXPECT_EQ(verdict_of_run(run_dir + "/none"), "");
  EXPECT_FALSE(find_report(run_dir));
  std::ofstream(run_dir + "/explain.json") << "{\"verdict\": 3}";
  EXPECT_FALSE(find_report(run_dir));
  std::ofstream(run_dir + "/explain.json") << "not json";
  EXPECT_FALSE(find_report(run_dir));
}

TEST_F(Watch, ARankThatLeftIsSeenToHaveEnded) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const std::vector<std::string> lines = told(
        3,
        [] {
          const ProcessGroup world = comm::world();
          barrier(world);
          if (rank() != 1) barrier(world);
        },
        true, seed);
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_NE(lines[0].find("rank 1 ended normally without"), std::string::npos) << lines[0];
  }
}

}  // namespace
}  // namespace tessera::watch
