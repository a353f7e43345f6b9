// Run directories read into evidence. Ranks are simulated, or recorders of this process represent them.
#include "tessera/analysis/read_run.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tessera/base/probe/layout.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/work.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/device/graph.h"
#include "tessera/memory/label.h"

namespace tessera::analysis {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using probe::detail::FileHeader;

class ReadRun : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "read_run_XXXXXX";
    directory = ::mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(directory); }

  // Creates a rank of this process that lives until it is reset.
  [[nodiscard]] std::unique_ptr<probe::Recorder> make_rank(int rank, int world_size) const {
    return std::make_unique<probe::Recorder>(
        RankPlace{.rank = tessera::Rank{rank}, .world_size = world_size, .run_dir = directory},
        probe::RecordOptions{.nbytes = probe::RecordOptions::kMinBytes});
  }
  // Leaves a copy in the run directory, as a rank that ends does.
  [[nodiscard]] std::string ended_rank(int rank, int world_size) const {
    const auto recorder = make_rank(rank, world_size);
    return recorder->run_path();
  }
  static void change_header(const std::string& path, const std::function<void(FileHeader&)>& change) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    FileHeader header{};
    file.read(reinterpret_cast<char*>(&header), sizeof header);
    change(header);
    file.seekp(0);
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
  }
  void write_launch(const std::string& text) const { std::ofstream(directory + "/launch.json") << text; }
  static std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
  }

  std::string directory;
};

TEST_F(ReadRun, TellsWhatRanksThatRunHaveDone) {
  simulate(3,
           [&] {
             const device::Stream stream = device::Device::get("host").default_stream();
             float x[8] = {};
             const memory::Label label("step");
             comm::world().all_reduce(x, x, 8, DType::kF32, {Reduction::kMin}, stream).wait();
             const int pair[] = {0, 2};
             const comm::ProcessGroup some = comm::world().subgroup(pair, {.name = "some"});
             if (comm::world().rank() != 1) some.launch({.kind = comm::OpKind::kBarrier}, stream).wait();
             comm::world().launch({.kind = comm::OpKind::kBarrier}, stream).wait();
             if (comm::world().rank() == 0) {
               const Evidence evidence = read_run(directory);
               EXPECT_EQ(joined(evidence.problems), "");
               EXPECT_EQ(evidence.source, directory);
               EXPECT_EQ(evidence.world_size, 3);
               EXPECT_EQ(evidence.ranks.size(), 3U);
               for (const Rank& rank : evidence.ranks) {
                 EXPECT_EQ(rank.state, RankState::kRunning);
                 EXPECT_EQ(rank.pid, static_cast<std::uint64_t>(::getpid()));
                 EXPECT_GT(rank.last_ns, 0);
                 EXPECT_LE(rank.last_ns, evidence.taken_ns);
                 EXPECT_EQ(rank.groups.size(), rank.rank == 1 ? 1U : 2U);
                 const Group& world = rank.groups.at(0);
                 EXPECT_EQ(world.name, "world");
                 EXPECT_EQ(world.rank, rank.rank);
                 const CollectiveCall& first = world.launches.at(0);
                 EXPECT_EQ(first.stage, Stage::kDone);
                 EXPECT_EQ(first.collective_number, 1U);
                 EXPECT_EQ(first.label, "step");
                 EXPECT_EQ(first.device, "host");
                 EXPECT_EQ(first.operations,
                           (std::vector<RecordedOperation>{
                               {.kind = "all_reduce", .dtype = "f32", .count = 8, .reduction = "min"}}));
                 EXPECT_EQ(world.launches.at(1).collective_number, 2U);
                 if (rank.rank == 1) continue;
                 EXPECT_EQ(rank.groups.at(1).ranks, (std::vector<int>{0, 2}));
                 EXPECT_EQ(rank.groups.at(1).launches.at(0).operations.at(0).kind, "barrier");
               }
               comm::store()->set("read", "");
             }
             (void)comm::store()->get("read", 20s);
           },
           {.run_dir = directory});
}

TEST_F(ReadRun, TellsWhoWaitsInWhichOperation) {
  simulate(2,
           [&] {
             const device::Stream stream = device::Device::get("host").create_stream();
             float x = 0;
             if (comm::world().rank() == 0) {
               (void)comm::store()->get("made", 20s);
               const comm::Work first = comm::world().all_reduce(&x, &x, 1, DType::kF32, {}, stream);
               const comm::Work second = comm::world().launch({.kind = comm::OpKind::kBarrier}, stream);
               Evidence evidence = read_run(directory);
               const auto has_begun = [&] {  // as its record shows, which is written first, and then its row
                 const Group& group = evidence.ranks.at(0).groups.at(0);
                 return group.launches.at(0).stage != Stage::kAsked && group.begun != 0;
               };
               while (!has_begun()) evidence = read_run(directory);
               const Group& own = evidence.ranks[0].groups[0];
               EXPECT_EQ(own.launches.size(), 2U);
               EXPECT_EQ(own.launches.at(0).stage, Stage::kBegun);
               EXPECT_EQ(own.launches.at(0).collective_number, 1U);
               EXPECT_EQ(own.launches.at(1).stage, Stage::kAsked);
               EXPECT_EQ(own.launches.at(1).collective_number, 2U);
               EXPECT_EQ(own.asked, 2U);
               EXPECT_EQ(own.begun, 1U);
               EXPECT_EQ(own.ended, 0U);
               EXPECT_TRUE(evidence.ranks.at(1).groups.at(0).launches.empty());
               comm::store()->set("read", "");
               second.wait();
             } else {
               comm::store()->set("made", "");  // the group, and its row
               (void)comm::store()->get("read", 20s);
               comm::world().all_reduce(&x, &x, 1, DType::kF32, {}, stream);
               comm::world().launch({.kind = comm::OpKind::kBarrier}, stream).wait();
             }
           },
           {.run_dir = directory});
}

// The objects of a rank, including its groups, were destroyed before it ended.
TEST_F(ReadRun, RanksThatHaveEndedStillTellWhatTheyDid) {
  simulate(2,
           [] {
             const device::Stream stream = device::Device::get("host").create_stream();
             float x = 0;
             stream.begin_capture();
             (void)comm::world().all_reduce(&x, &x, 1, DType::kF32, {}, stream);
             const device::GraphExec graph = stream.end_capture().instantiate();
             for (int i = 0; i < 3; ++i) graph.launch(stream);
             stream.synchronize();
             comm::world().launch({.kind = comm::OpKind::kBarrier}, stream).wait();
           },
           {.run_dir = directory});
  const Evidence evidence = read_run(directory);
  for (const Rank& rank : evidence.ranks) {
    EXPECT_EQ(rank.state, RankState::kEnded);
    ASSERT_EQ(rank.groups.size(), 1U);
    EXPECT_EQ(rank.groups[0].name, "world");
    EXPECT_EQ(rank.groups[0].ranks, (std::vector<int>{0, 1}));
    const std::vector<CollectiveCall>& launches = rank.groups[0].launches;
    ASSERT_EQ(launches.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(launches[i].collective_number, i + 1);
      EXPECT_EQ(launches[i].replay, i < 3 ? i + 1 : 0U);
      EXPECT_EQ(launches[i].stage, Stage::kDone);
      EXPECT_NE(launches[i].met_ns, 0);
      EXPECT_LE(launches[i].begun_ns, launches[i].met_ns);
      EXPECT_LE(launches[i].met_ns, launches[i].ended_ns);
    }
  }
}

TEST_F(ReadRun, RefusesWhatIsNoRunDirectory) {
  expect_error<IoError>([&] { (void)read_run(directory + "/none"); }, {directory + "/none", "no such directory"});
  std::ofstream(directory + "/notes.txt") << "hello";
  expect_error<IoError>([&] { (void)read_run(directory); }, {directory, "rank-N", "launch.json", "--run-dir"});
}

TEST_F(ReadRun, ARankWithoutAFileIsMissing) {
  const auto zero = make_rank(0, 3);
  const auto two = make_rank(2, 3);
  const Evidence evidence = read_run(directory);
  ASSERT_EQ(evidence.ranks.size(), 3U);
  EXPECT_EQ(evidence.ranks[0].state, RankState::kRunning);
  EXPECT_EQ(evidence.ranks[1].state, RankState::kMissing);
  EXPECT_EQ(evidence.ranks[1].rank, 1);
  EXPECT_EQ(evidence.ranks[2].state, RankState::kRunning);
}

TEST_F(ReadRun, ARankThatEndedOrFailedSaysSo) {
  (void)ended_rank(0, 2);
  const auto failed = make_rank(1, 2);
  failed->save_failure("out of patience");
  const Evidence evidence = read_run(directory);
  EXPECT_EQ(evidence.ranks.at(0).state, RankState::kEnded);
  EXPECT_EQ(evidence.ranks.at(1).state, RankState::kFailed);
  EXPECT_EQ(evidence.ranks.at(1).reason, "out of patience");
}

TEST_F(ReadRun, TheLastStartOfARankCounts) {
  const std::string first = ended_rank(0, 1);
  const auto second = make_rank(0, 1);
  const Evidence evidence = read_run(directory);
  ASSERT_EQ(evidence.ranks.size(), 1U);
  EXPECT_EQ(evidence.ranks[0].file, second->run_path());
  EXPECT_EQ(evidence.ranks[0].state, RankState::kRunning);
  EXPECT_EQ(joined(evidence.problems), "");
  EXPECT_TRUE(fs::exists(first));
}

// A tool that ran with the same TESSERA_RUN_DIR, or a start with another number of ranks.
TEST_F(ReadRun, FilesOfAnotherWorldAreNotTaken) {
  (void)ended_rank(0, 4);
  (void)ended_rank(3, 4);
  const std::string zero = ended_rank(0, 2);
  (void)ended_rank(1, 2);
  (void)ended_rank(0, 1);
  const Evidence evidence = read_run(directory);
  ASSERT_EQ(evidence.world_size, 2);
  EXPECT_EQ(evidence.ranks.at(0).file, zero);
}

TEST_F(ReadRun, OneSpoiltWorldSizeDoesNotHideTheOthers) {
  (void)ended_rank(0, 3);
  (void)ended_rank(1, 3);
  const std::string spoilt = ended_rank(2, 3);
  change_header(spoilt, [](FileHeader& header) { header.world_size = 60000; });
  const Evidence evidence = read_run(directory);
  EXPECT_EQ(evidence.world_size, 3);
  EXPECT_EQ(evidence.ranks.at(1).state, RankState::kEnded);
  EXPECT_NE(joined(evidence.problems).find(spoilt + ": of a world of 60000 ranks"), std::string::npos);
}

TEST_F(ReadRun, AFileThatCannotBeReadIsToldAndTheOthersAreRead) {
  const std::string newer = ended_rank(0, 4);
  const std::string cut = ended_rank(1, 4);
  const std::string half = ended_rank(2, 4);
  (void)ended_rank(3, 4);
  change_header(newer, [](FileHeader& header) { header.version = 1000; });
  fs::resize_file(cut, 100);
  fs::resize_file(half, fs::file_size(half) / 2);
  const Evidence evidence = read_run(directory);
  const std::string problems = joined(evidence.problems);
  EXPECT_NE(problems.find(newer + ": format version must be at most 1, got 1000"), std::string::npos) << problems;
  EXPECT_NE(problems.find(cut + ": must have at least 4096 bytes for its header, got 100"), std::string::npos)
      << problems;
  EXPECT_NE(problems.find(half + ": cut off at"), std::string::npos) << problems;
  ASSERT_EQ(evidence.world_size, 4);
  EXPECT_EQ(evidence.ranks[0].state, RankState::kUnknown);
  EXPECT_EQ(evidence.ranks[0].file, newer);
  EXPECT_EQ(evidence.ranks[1].state, RankState::kUnknown);
  EXPECT_EQ(evidence.ranks[2].state, RankState::kEnded);
  EXPECT_EQ(evidence.ranks[3].state, RankState::kEnded);
}

TEST_F(ReadRun, ALinkWhoseRecordIsElsewhereSaysWhere) {
  const auto zero = make_rank(0, 2);
  fs::create_symlink("/dev/shm/tessera-n1-p2-t3-r1-0.record", directory + "/rank-1.far.away.77.0.record");
  const Evidence evidence = read_run(directory);
  ASSERT_EQ(evidence.ranks.size(), 2U);
  EXPECT_EQ(evidence.ranks[1].state, RankState::kUnknown);
  EXPECT_EQ(evidence.ranks[1].host, "far.away");
  EXPECT_TRUE(evidence.ranks[1].is_unread);
  EXPECT_FALSE(evidence.ranks[0].is_unread);
  EXPECT_NE(joined(evidence.problems).find("tessera-n1-p2-t3-r1-0.record of host far.away"), std::string::npos)
      << joined(evidence.problems);
}

TEST_F(ReadRun, AProcessThatIsGoneHasDied) {
  const auto rank = make_rank(0, 1);
  const std::string copy = directory + "/copy";
  fs::copy_file(rank->path(), copy);
  const auto taken_for = [&](const std::function<void(FileHeader&)>& change) {
    change_header(copy, change);
    fs::remove(rank->run_path());
    fs::copy_file(copy, rank->run_path());
    return read_run(directory).ranks.at(0).state;
  };
  EXPECT_EQ(taken_for([](FileHeader&) {}), RankState::kRunning);
  EXPECT_EQ(taken_for([](FileHeader& header) { ++header.process_start; }), RankState::kDied);
  EXPECT_EQ(taken_for([](FileHeader& header) { ++header.pid_namespace; }), RankState::kUnknown);
  EXPECT_EQ(taken_for([](FileHeader& header) {
              --header.pid_namespace;
              header.boot_id[0] = '?';
            }),
            RankState::kUnknown);
}

TEST_F(ReadRun, TheLaunchersWordsTellHowProcessesEnded) {
  const std::string open = ended_rank(1, 5);
  change_header(open, [](FileHeader& header) {
    header.state = static_cast<std::uint32_t>(probe::detail::FileState::kOpen);
    ++header.process_start;
  });
  (void)ended_rank(2, 5);
  write_launch(R"json({"ranks": 5, "host": "node7", "exit_code": 137, "ended": "2100-01-01T00:00:09Z",
    "starts": [{"time": "2020-01-01T00:00:00Z", "ranks": [
      {"rank": 0, "pid": 10, "end": "exited with 0", "exit_code": 0, "signal": 0, "time": "2100-01-01T00:00:01Z"},
      {"rank": 1, "pid": 11, "end": "was killed by signal 9 (Killed)", "exit_code": 0, "signal": 9},
      {"rank": 2, "pid": 12, "end": "exited with 3", "exit_code": 3, "signal": 0},
      {"rank": 3, "pid": 13, "end": "was killed by signal 15 (Terminated)", "signal": 15},
      {"rank": 4, "pid": 14}]}]})json");
  const Evidence evidence = read_run(directory);
  EXPECT_EQ(joined(evidence.problems), "");
  ASSERT_EQ(evidence.ranks.size(), 5U);
  EXPECT_EQ(evidence.ranks[0].state, RankState::kEnded);
  EXPECT_EQ(evidence.ranks[0].host, "node7");
  EXPECT_EQ(evidence.ranks[1].state, RankState::kDied);
  EXPECT_EQ(evidence.ranks[1].signal, 9);
  EXPECT_EQ(evidence.ranks[1].reason, "was killed by signal 9 (Killed)");
  EXPECT_EQ(evidence.ranks[2].state, RankState::kFailed);
  EXPECT_EQ(evidence.ranks[2].reason, "exited with 3");
  EXPECT_EQ(evidence.ranks[3].state, RankState::kDied);
  EXPECT_EQ(evidence.ranks[3].pid, 13U);
  EXPECT_EQ(evidence.ranks[4].state, RankState::kMissing);
  EXPECT_EQ(evidence.ranks[4].pid, 14U);
}

TEST_F(ReadRun, OfTwoLaunchersTheRecordsOfTheOneThatIsToldOfAreTaken) {
  const auto leave = [&](int rank, std::uint64_t pid) {
    std::string path = ended_rank(rank, 2);
    change_header(path, [&](FileHeader& header) { header.pid = pid; });
    return path;
  };
  const std::string zero = leave(0, 10);
  const std::string one = leave(1, 11);
  (void)leave(0, 20);  // those of the launcher that lost the race, which began later
  (void)leave(1, 21);
  write_launch(R"json({"ranks": 2, "starts": [{"time": "2020-01-01T00:00:00Z", "ranks": [
      {"rank": 0, "pid": 10, "end": "exited with 0", "exit_code": 0, "signal": 0},
      {"rank": 1, "pid": 11, "end": "exited with 0", "exit_code": 0, "signal": 0}]}]})json");
  Evidence evidence = read_run(directory);
  EXPECT_EQ(evidence.ranks.at(0).file, zero);
  EXPECT_EQ(evidence.ranks.at(1).file, one);
  fs::remove(one);
  evidence = read_run(directory);
  EXPECT_EQ(evidence.ranks.at(1).file, "") << "a rank of the other launcher does not stand in for it";
}

TEST_F(ReadRun, TheLauncherTellsWhichSignalsItSent) {
  write_launch(R"json({"ranks": 4, "starts": [{"time": "2020-01-01T00:00:00Z", "ranks": [
      {"rank": 0, "pid": 10, "end": "was killed by signal 9 (Killed)", "exit_code": 0, "signal": 9, "signals":
        [{"signal": 15, "text": "rank 3 exited with 1"}, {"signal": 9, "text": "it did not end"}]},
      {"rank": 1, "pid": 11, "end": "was killed by signal 9 (Killed)", "exit_code": 0, "signal": 9, "signals":
        [{"signal": 15, "text": "rank 3 exited with 1"}, 7]},
      {"rank": 2, "pid": 12, "end": "exited with 143", "exit_code": 143, "signal": 0, "signals":
        [{"signal": 15, "text": "rank 3 exited with 1"}]},
      {"rank": 3, "pid": 13, "end": "exited with 1", "exit_code": 1, "signal": 0, "signals": "none"}]}]})json");
  const Evidence evidence = read_run(directory);
  EXPECT_EQ(evidence.ranks.at(0).ended_by, "it did not end");
  EXPECT_EQ(evidence.ranks.at(1).ended_by, "") << "another process killed it";
  EXPECT_EQ(evidence.ranks.at(2).ended_by, "rank 3 exited with 1");
  EXPECT_EQ(evidence.ranks.at(3).ended_by, "");
}

TEST_F(ReadRun, ATrainerThatStoppedTellsWhyInItsSummary) {
  const std::string path = directory + "/summary.json";
  std::ofstream(path) << R"({"end": "stopped", "reason": "step 3: loss nan"})";
  fs::last_write_time(path, fs::file_time_type::clock::now() - 1h);
  (void)ended_rank(0, 1);
  EXPECT_EQ(read_run(directory).stopped, "") << "of an earlier start";
  fs::last_write_time(path, fs::file_time_type::clock::now() + 1h);
  EXPECT_EQ(read_run(directory).stopped, "step 3: loss nan");
  std::ofstream(path) << R"({"end": "done", "reason": "step 3: loss nan"})";
  fs::last_write_time(path, fs::file_time_type::clock::now() + 1h);
  EXPECT_EQ(read_run(directory).stopped, "");
  for (const char* text : {"[", "7", R"({"end": 7, "reason": []})"}) {
    std::ofstream(path) << text;
    fs::last_write_time(path, fs::file_time_type::clock::now() + 1h);
    EXPECT_EQ(read_run(directory).stopped, "");
  }
  std::ofstream(path) << R"({"end": "stopped", "reason": "step 3: loss nan"})" << std::string(16 << 20, ' ');
  fs::last_write_time(path, fs::file_time_type::clock::now() + 1h);
  EXPECT_EQ(read_run(directory).stopped, "") << "no trainer writes so much";
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(read_run(directory).stopped, "");
}

TEST_F(ReadRun, FilesFromBeforeTheLastStartAreNotTaken) {
  (void)ended_rank(0, 1);
  write_launch(R"({"ranks": 1, "starts": [{"time": "2020-01-01T00:00:00Z", "ranks": []},
                                          {"time": "2100-01-01T00:00:00Z", "ranks": [{"rank": 0, "pid": 5}]}]})");
  EXPECT_EQ(read_run(directory).ranks.at(0).state, RankState::kMissing);
}

TEST_F(ReadRun, ASmallerWorldIsReadByItself) {
  for (int rank = 0; rank < 3; ++rank) (void)ended_rank(rank, 3);
  const std::int64_t since =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  change_header(ended_rank(0, 2), [](FileHeader& header) { header.pid = 21; });
  const std::string last = ended_rank(1, 2);
  change_header(last, [](FileHeader& header) {  // rank 2 before
    header.state = static_cast<std::uint32_t>(probe::detail::FileState::kOpen);
    header.pid = 23;
    ++header.process_start;
  });
  write_launch(R"json({"ranks": 3, "starts": [{"time": "2020-01-01T00:00:00Z", "ranks": [
      {"rank": 0, "pid": 21},
      {"rank": 1, "pid": 22, "end": "exited with 3", "exit_code": 3, "signal": 0},
      {"rank": 2, "pid": 23, "end": "was killed by signal 9 (Killed)", "exit_code": 0, "signal": 9}]}]})json");
  EXPECT_EQ(read_run(directory).world_size, 3) << "by no process of those that were started";
  const Evidence evidence = read_run(directory, {.smaller_since_ns = since});
  EXPECT_EQ(joined(evidence.problems), "");
  ASSERT_EQ(evidence.ranks.size(), 2U);
  EXPECT_EQ(evidence.ranks[0].state, RankState::kEnded);
  EXPECT_EQ(evidence.ranks[1].file, last);
  EXPECT_EQ(evidence.ranks[1].state, RankState::kDied);
  EXPECT_EQ(evidence.ranks[1].signal, 9) << "of its process, not of the rank that had its number";
}

TEST_F(ReadRun, OfRanksThatWentOnWithoutOthersTheLastWorldIsRead) {
  const auto leave = [&](int rank, int world_size, std::uint64_t pid) {
    std::string path = ended_rank(rank, world_size);
    change_header(path, [&](FileHeader& header) { header.pid = pid; });
    return path;
  };
  for (int rank = 0; rank < 4; ++rank) (void)leave(rank, 4, 20 + static_cast<std::uint64_t>(rank));
  const std::string zero = leave(0, 2, 20);
  const std::string one = leave(1, 2, 22);
  (void)leave(0, 1, 77);  // of a tool
  write_launch(R"json({"ranks": 4, "starts": [{"time": "2020-01-01T00:00:00Z", "ranks": [
      {"rank": 0, "pid": 20},
      {"rank": 1, "pid": 21, "end": "was killed by signal 9 (Killed)", "exit_code": 0, "signal": 9},
      {"rank": 2, "pid": 22, "end": "exited with 3", "exit_code": 3, "signal": 0},
      {"rank": 3, "pid": 23, "end": "exited with 0", "exit_code": 0, "signal": 0}]}]})json");
  const Evidence evidence = read_run(directory);
  EXPECT_EQ(joined(evidence.problems), "");
  ASSERT_EQ(evidence.world_size, 2);
  EXPECT_EQ(evidence.ranks.at(0).file, zero);
  EXPECT_EQ(evidence.ranks.at(1).file, one);
  EXPECT_EQ(evidence.ranks.at(1).reason, "exited with 3") << "of its process, not of the rank that had its number";
  EXPECT_EQ(evidence.before, "4 ranks started; rank 1 was killed by signal 9 (Killed)");
}

TEST_F(ReadRun, ARunThatWasGoneOnWithWithoutTheLauncherIsReadFromThen) {
  (void)ended_rank(0, 2);
  (void)ended_rank(1, 2);
  write_launch(R"({"ranks": 2, "exit_code": 0, "ended": "2020-01-01T00:00:09Z",
                   "starts": [{"time": "2019-01-01T00:00:00Z", "ranks": [{"rank": 0, "pid": 5}]}]})");
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() != ".record") continue;
    change_header(entry.path(), [](FileHeader& header) {
      header.first.wall_ns = std::int64_t{1'577'000'000} * 1'000'000'000;  // before 2020
      header.first.check = probe::detail::sample_check(header.first);
    });
  }
  const std::string last = ended_rank(0, 1);
  change_header(last, [](FileHeader& header) { header.pid = 77; });
  EXPECT_EQ(read_run(directory).world_size, 2) << "a tool";
  std::ofstream(directory + "/config.toml") << "[mesh]\ndp = 1\nfsdp = 1 # more\ntp = 1\n[train]\ndp = 7\n";
  const Evidence evidence = read_run(directory);
  ASSERT_EQ(evidence.world_size, 1);
  EXPECT_EQ(evidence.ranks.at(0).file, last);
}

TEST_F(ReadRun, WhenAllIsOverTheTimeIsThatOfTheLastEnd) {
  (void)ended_rank(0, 1);
  write_launch(R"({"ranks": 1, "exit_code": 0, "ended": "2100-01-01T00:00:09Z",
                   "starts": [{"time": "2020-01-01T00:00:00Z", "ranks": []}]})");
  EXPECT_EQ(read_run(directory).taken_ns, std::int64_t{4102444809} * 1'000'000'000);
}

TEST_F(ReadRun, ALaunchFileThatIsSpoiltIsToldAndTheRecordsAreRead) {
  (void)ended_rank(0, 1);
  write_launch(R"({"ranks": 1, "starts": [)");
  Evidence evidence = read_run(directory);
  EXPECT_EQ(evidence.ranks.at(0).state, RankState::kEnded);
  EXPECT_NE(joined(evidence.problems).find(directory + "/launch.json: not JSON"), std::string::npos);
  write_launch(R"({"ranks": "many", "starts": [{"ranks": [{"rank": 0.5, "pid": "x", "end": 7}, 3]}, {}]})");
  evidence = read_run(directory);
  EXPECT_EQ(evidence.ranks.at(0).state, RankState::kEnded);
  EXPECT_NE(joined(evidence.problems).find("the number of ranks is missing"), std::string::npos);
}

}  // namespace
}  // namespace tessera::analysis
