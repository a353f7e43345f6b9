// Launches of a group, assembled from records and rows that may be lost, torn or of another version. The records are
// written here field by field (testing/comm_rows.h).
#include "tessera/analysis/detail/read_groups.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tessera/analysis/testing/comm_rows.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/comm/operation.h"
#include "tessera/comm/records.h"

namespace tessera::analysis {
namespace {

using namespace testing;
using comm::OpKind;
using probe::Moment;
using probe::RecordFile;
using probe::Ring;
using probe::StringId;

// One operation; the peer of a point-to-point operation is in `root`.
struct What {
  OpKind kind = OpKind::kAllReduce;
  std::int64_t count = 64;
  std::int32_t root = 0;
  std::uint32_t parts = 0;
};

// A rank of three that writes records of its groups.
class GroupRecords : public ::testing::Test {
 protected:
  static constexpr int kRank = 1;
  probe::Recorder recorder{RankPlace{.rank = tessera::Rank{kRank}, .world_size = 3},
                           {.nbytes = probe::RecordOptions::kMinBytes}};
  std::vector<probe::Row<GroupRow>> groups;
  std::vector<probe::Row<AskedRow>> asked_rows;
  std::vector<probe::Row<RunningRow>> running_rows;
  std::vector<std::string> problems;

  void make_group(std::uint32_t number, const std::string& name) {
    groups.push_back(recorder.table<GroupRow>().claim({.group = number,
                                                       .rank = kRank,
                                                       .size = 3,
                                                       .name = recorder.intern(name),
                                                       .ranks = recorder.intern("0-2"),
                                                       .backend = recorder.intern("shm")}));
  }
  void ask(std::uint32_t group, std::uint32_t task, const std::vector<What>& operations) {
    const StringId device = recorder.intern("host");
    const StringId label = recorder.intern("step");
    const Moment now = recorder.begin();
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const What& what = operations[i];
      recorder.write_at(now, Ring::kComm,
                        OperationRow{what.count, task, group, 7, device, what.parts, label, what.kind, DType::kF32,
                                     Reduction::kMax, static_cast<std::uint8_t>(i), what.root});
    }
  }
  void begin(std::uint32_t group, std::uint64_t sequence, std::uint32_t task, std::uint64_t collective_number,
             const What& what = {}, std::uint8_t operations = 1) {
    recorder.write(Ring::kComm, BeginRow{sequence, what.count, task, group, what.kind, DType::kF32, Reduction::kMax,
                                         operations, what.root, collective_number});
  }
  void end(std::uint32_t group, std::uint64_t sequence, std::uint32_t task, std::uint8_t failure = 0,
           Moment met = Moment{0}) {
    recorder.write(Ring::kComm, EndRow{sequence, task, group, met, failure});
  }
  // Records enqueue, start and end.
  void run(std::uint32_t group, std::uint32_t number, const What& what = {}) {
    ask(group, number, {what});
    begin(group, number, number, number, what);
    end(group, number, number);
  }
  std::vector<Group> read(std::size_t last = 1000) {
    return detail::read_groups(RecordFile::open(recorder.path()), last, problems);
  }
  std::vector<CollectiveCall> launches_of(std::uint32_t which = 0) {
    std::vector<Group> found = read();
    EXPECT_GT(found.size(), which);
    return found.size() > which ? found[which].launches : std::vector<CollectiveCall>();
  }
  // Writes more records of another group than the ring can hold.
  void flood(std::uint32_t group) {
    for (std::uint32_t i = 1; i < 3000; ++i) run(group, i);
  }
};

TEST_F(GroupRecords, TellOfEveryLaunchHowFarItCame) {
  make_group(1, "world");
  ask(1, 1, {{.count = 3}});
  begin(1, 1, 1, 1, {.count = 3});
  end(1, 1, 1, 0, recorder.now());
  ask(1, 2, {{.kind = OpKind::kBroadcast, .root = 2}});
  begin(1, 2, 2, 2, {.kind = OpKind::kBroadcast, .root = 2});
  end(1, 2, 2, 1 + static_cast<std::uint8_t>(ErrorKind::kTimeout));
  ask(1, 3, {{.kind = OpKind::kSend, .root = 0}});
  begin(1, 3, 3, 1, {.kind = OpKind::kSend, .root = 0});
  ask(1, 4, {{.kind = OpKind::kAllGather, .parts = 77}});
  const std::vector<Group> found = read();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "world");
  EXPECT_EQ(found[0].backend, "shm");
  EXPECT_EQ(found[0].ranks, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(found[0].rank, kRank);
  EXPECT_EQ(found[0].asked, 4U);
  const std::vector<CollectiveCall>& launches = found[0].launches;
  ASSERT_EQ(launches.size(), 4U);
  EXPECT_EQ(launches[0].operations,
            (std::vector<RecordedOperation>{{.kind = "all_reduce", .dtype = "f32", .count = 3, .reduction = "max"}}));
  EXPECT_EQ(launches[0].stage, Stage::kDone);
  EXPECT_LE(launches[0].asked_ns, launches[0].begun_ns);
  EXPECT_LE(launches[0].begun_ns, launches[0].met_ns);
  EXPECT_LE(launches[0].met_ns, launches[0].ended_ns);
  EXPECT_NE(launches[0].asked_ns, 0);
  EXPECT_EQ(launches[0].label, "step");
  EXPECT_EQ(launches[0].device, "host");
  EXPECT_EQ(launches[0].stream, 7U);
  EXPECT_NE(launches[0].thread, 0U);
  EXPECT_EQ(launches[1].stage, Stage::kFailed);
  EXPECT_EQ(launches[1].failure, "timeout");
  EXPECT_EQ(launches[1].operations[0].root, 2);
  EXPECT_EQ(launches[1].operations[0].reduction, "");
  EXPECT_EQ(launches[2].stage, Stage::kBegun);
  EXPECT_TRUE(launches[2].is_message());
  EXPECT_EQ(launches[2].operations[0].peer, 0);
  EXPECT_EQ(launches[3].stage, Stage::kAsked);
  EXPECT_EQ(launches[3].sequence, 0U);
  EXPECT_EQ(launches[3].operations[0].parts, 77U);
  EXPECT_EQ(problems, std::vector<std::string>());
}

TEST_F(GroupRecords, WaitsForSignalsAreReadFromTheTableAndOfThoseThatFailedFromTheRing) {
  make_group(1, "world");
  comm::CommSignalRow wait{.number = 3,
                           .when = recorder.begin(),
                           .group = 1,
                           .peer = 2,
                           .channel = 5,
                           .failure = 0,
                           .pool = recorder.intern("grads"),
                           .what = recorder.intern("wait_signal")};
  const auto row = recorder.table<comm::CommSignalRow>().claim(wait);
  wait.peer = 0;
  wait.failure = 1 + static_cast<std::uint32_t>(ErrorKind::kTimeout);
  recorder.write(Ring::kComm, wait);
  wait.peer = 77;  // not a member
  recorder.write(Ring::kComm, wait);
  const std::vector<Group> found = read();
  ASSERT_EQ(found.at(0).signals.size(), 2U);
  const CollectiveCall& failed = found[0].signals[0];
  EXPECT_EQ(failed.stage, Stage::kFailed);
  EXPECT_EQ(failed.failure, "timeout");
  EXPECT_GE(failed.ended_ns, failed.begun_ns);
  const CollectiveCall& waits = found[0].signals[1];
  EXPECT_EQ(waits.operations, (std::vector<RecordedOperation>{{.kind = "wait_signal", .peer = 2, .channel = 5}}));
  EXPECT_EQ(waits.stage, Stage::kBegun);
  EXPECT_EQ(waits.collective_number, 3U);
  EXPECT_EQ(waits.label, "grads");
  EXPECT_NE(waits.begun_ns, 0);
  EXPECT_EQ(problems.size(), 1U);
}

TEST_F(GroupRecords, NameTheCollectivesOfTheProgram) {
  make_group(1, "world");
  const auto first = static_cast<OpKind>(comm::kFirstCustomOpKind);
  const auto second = static_cast<OpKind>(comm::kFirstCustomOpKind + 1);
  const auto add = [&](OpKind kind, const std::string& name) {
    comm::CollectiveRow row{.name = recorder.intern(name), .kind = kind, .reduces = 1, .is_rooted = 1};
    recorder.table<comm::CollectiveRow>().claim(row).leave();
  };
  add(first, "ring_reduce");
  add(OpKind::kBarrier, "not a kind of programs");
  run(1, 1, {.kind = first, .root = 2});
  run(1, 2, {.kind = second, .root = 2});
  const std::vector<CollectiveCall> launches = launches_of();
  ASSERT_EQ(launches.size(), 2U);
  EXPECT_EQ(launches[0].operations,
            (std::vector<RecordedOperation>{
                {.kind = "ring_reduce", .dtype = "f32", .count = 64, .reduction = "max", .root = 2}}));
  EXPECT_EQ(launches[1].operations[0].kind, "operation 25") << "a record of an earlier version has no names";
  EXPECT_EQ(problems.size(), 1U) << "the invalid row";
}

TEST_F(GroupRecords, AMixedLaunchIsACollective) {
  make_group(1, "world");
  ask(1, 1, {{.kind = OpKind::kSend, .root = 2}, {.kind = OpKind::kBarrier}});
  begin(1, 1, 1, 1, {.kind = OpKind::kBarrier}, 2);
  const std::vector<CollectiveCall> launches = launches_of();
  ASSERT_EQ(launches.size(), 1U);
  EXPECT_TRUE(launches[0].is_whole);
  EXPECT_FALSE(launches[0].is_message());
  ASSERT_EQ(launches[0].operations.size(), 2U);
  EXPECT_EQ(launches[0].operations[1].kind, "send");
}

TEST_F(GroupRecords, RowsTellWhatTheRingHasForgotten) {
  make_group(1, "hung");
  make_group(2, "busy");
  const Moment now = recorder.begin();
  const StringId label = recorder.intern("late");
  asked_rows.push_back(recorder.table<AskedRow>().claim({.count = 8,
                                                         .when = now,
                                                         .task = 41,
                                                         .group = 1,
                                                         .label = label,
                                                         .kind = OpKind::kAllGather,
                                                         .dtype = DType::kF32,
                                                         .thread = 99,
                                                         .operations = 1}));
  asked_rows.push_back(recorder.table<AskedRow>().claim({.count = 9,
                                                         .when = now,
                                                         .task = 42,
                                                         .group = 1,
                                                         .kind = OpKind::kAllReduce,
                                                         .dtype = DType::kF32,
                                                         .operations = 1}));
  running_rows.push_back(recorder.table<RunningRow>().claim({.begun = 41,
                                                             .ended = 40,
                                                             .count = 8,
                                                             .when = now,
                                                             .task = 41,
                                                             .group = 1,
                                                             .kind = OpKind::kAllGather,
                                                             .dtype = DType::kF32,
                                                             .operations = 1,
                                                             .collective_number = 40,
                                                             .collectives_begun = 40,
                                                             .collectives_ended = 39}));
  flood(2);
  const std::vector<Group> found = read();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].asked, 42U);
  EXPECT_EQ(found[0].begun, 40U);
  EXPECT_EQ(found[0].ended, 39U);
  ASSERT_EQ(found[0].launches.size(), 2U);
  const CollectiveCall& hung = found[0].launches[0];
  EXPECT_EQ(hung.stage, Stage::kBegun);
  EXPECT_EQ(hung.collective_number, 40U);
  EXPECT_EQ(hung.label, "late");
  EXPECT_EQ(hung.thread, 99U);
  EXPECT_TRUE(hung.is_whole);
  const CollectiveCall& waiting = found[0].launches[1];
  EXPECT_EQ(waiting.stage, Stage::kAsked);
  EXPECT_EQ(waiting.collective_number, 41U);
}

TEST_F(GroupRecords, AGroupThatIsGoneIsKnownByHowItWasMade) {
  const auto made = [&](std::uint32_t number, const char* name) {
    recorder.write(Ring::kComm, GroupRow{number, kRank, 3, recorder.intern(name), recorder.intern("0-2"), {}});
  };
  made(1, "world");
  run(1, 1);
  made(2, "some");
  made(3, "some");
  run(3, 1, {.kind = OpKind::kBarrier});
  make_group(1, "world");
  const std::vector<Group> found = read();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "world");
  EXPECT_EQ(found[1].name, "some");
  ASSERT_EQ(found[1].launches.size(), 1U);
  EXPECT_EQ(found[1].launches[0].operations[0].kind, "barrier");
}

TEST_F(GroupRecords, ALaunchWhoseOperationsAreLostIsNotWhole) {
  make_group(1, "world");
  ask(1, 2, {{.kind = OpKind::kAllGather, .parts = 5}});
  begin(1, 1, 1, 1, {.kind = OpKind::kAllGather});
  begin(1, 2, 2, 2, {.kind = OpKind::kAllGather}, 3);
  const std::vector<CollectiveCall> launches = launches_of();
  ASSERT_EQ(launches.size(), 2U);
  EXPECT_FALSE(launches[0].is_whole);
  EXPECT_EQ(launches[0].operations.size(), 1U);
  EXPECT_FALSE(launches[1].is_whole);
  EXPECT_EQ(launches[1].operations.size(), 1U);
}

TEST_F(GroupRecords, AnEndThatIsLostIsToldByTheRow) {
  make_group(1, "world");
  ask(1, 1, {{}});
  begin(1, 1, 1, 1);
  ask(1, 2, {{}});
  begin(1, 2, 2, 2);
  running_rows.push_back(recorder.table<RunningRow>().claim({.begun = 2,
                                                             .ended = 1,
                                                             .when = recorder.now(),
                                                             .task = 2,
                                                             .group = 1,
                                                             .operations = 1,
                                                             .collective_number = 2,
                                                             .met = recorder.now()}));
  const std::vector<CollectiveCall> launches = launches_of();
  ASSERT_EQ(launches.size(), 2U);
  EXPECT_EQ(launches[0].stage, Stage::kDone);
  EXPECT_EQ(launches[0].ended_ns, 0);
  EXPECT_EQ(launches[1].stage, Stage::kMet);
}

TEST_F(GroupRecords, WhatWaitsHasTheNumberItWillGet) {
  make_group(1, "world");
  run(1, 1);
  ask(1, 2, {{.kind = OpKind::kSend, .root = 2}, {.kind = OpKind::kRecv, .root = 0}});
  begin(1, 2, 2, 1, {.kind = OpKind::kSend, .root = 2}, 2);
  ask(1, 3, {{}});
  ask(1, 4, {{.kind = OpKind::kSend, .root = 2}});
  ask(1, 5, {{.kind = OpKind::kRecv, .root = 0}});
  ask(1, 6, {{.kind = OpKind::kRecv, .root = 2}});
  ask(1, 7, {{.kind = OpKind::kBarrier}});
  std::vector<std::uint64_t> collective_numbers;
  for (const CollectiveCall& launch : launches_of()) collective_numbers.push_back(launch.collective_number);
  EXPECT_EQ(collective_numbers, (std::vector<std::uint64_t>{1, 1, 2, 2, 2, 1, 3}));
}

TEST_F(GroupRecords, ReplaysNameTheirNodeAndCapturedLaunchesDoNotWait) {
  make_group(1, "world");
  ask(1, 1, {{}});
  ask(1, 2, {{.kind = OpKind::kBarrier}});  // both captured
  run(1, 3);
  for (std::uint64_t replay = 1; replay <= 2; ++replay) {
    const std::uint64_t sequence = 3 + replay;
    begin(1, sequence, 1, sequence - 1);
    recorder.write(Ring::kComm, ReplayRow{sequence, replay, 1, 1, 5, 9});
    if (replay == 1) end(1, sequence, 1);
  }
  ask(1, 4, {{}});
  const std::vector<CollectiveCall> launches = launches_of();
  ASSERT_EQ(launches.size(), 4U);
  EXPECT_EQ(launches[2].stage, Stage::kBegun);
  EXPECT_EQ(launches[2].replay, 2U);
  EXPECT_EQ(launches[2].node, 9U);
  EXPECT_EQ(launches[2].collective_number, 4U);
  EXPECT_EQ(launches[2].asked_ns, 0);
  EXPECT_EQ(launches[3].stage, Stage::kAsked);
  EXPECT_EQ(launches[3].task, 4U);
  EXPECT_EQ(launches[3].collective_number, 0U);
}

// Launches that a graph adds to the queue are not enqueued one by one.
TEST_F(GroupRecords, WhatWaitsInAGroupThatReplaysHasNoNumberYet) {
  make_group(1, "world");
  const auto row = recorder.table<ReplayRow>().claim({3, 1, 1, 1, 5, 9});
  begin(1, 4, 2, 4);
  ask(1, 3, {{}});
  const std::vector<CollectiveCall> launches = launches_of();
  ASSERT_EQ(launches.size(), 2U);
  EXPECT_EQ(launches[1].stage, Stage::kAsked);
  EXPECT_EQ(launches[1].collective_number, 0U);
}

// Its rows outlive the ring, which replays of a graph have overwritten.
TEST_F(GroupRecords, WhatWasAskedForBeforeAReplayDoesNotWait) {
  make_group(1, "world");
  asked_rows.push_back(
      recorder.table<AskedRow>().claim({.when = recorder.now(), .task = 50, .group = 1, .operations = 1}));
  begin(1, 9000, 10, 9000);
  recorder.write(Ring::kComm, ReplayRow{9000, 800, 10, 1, 5, 9});
  const std::vector<CollectiveCall> launches = launches_of();
  ASSERT_EQ(launches.size(), 1U);
  EXPECT_EQ(launches[0].replay, 800U);
}

TEST_F(GroupRecords, OfOlderVersionsAreCounted) {
  make_group(1, "world");
  ask(1, 1, {{}});
  ask(1, 2, {{.kind = OpKind::kSend, .root = 2}});
  ask(1, 3, {{}});
  ask(1, 4, {{}});
  const auto old_begin = [&](std::uint64_t sequence, const What& what) {
    recorder.write(Ring::kComm, OldBeginRecord{sequence, what.count, static_cast<std::uint32_t>(sequence), 1, what.kind,
                                               DType::kF32, Reduction::kMax, 1, what.root});
  };
  old_begin(1, {});
  old_begin(2, {.kind = OpKind::kSend, .root = 2});
  old_begin(3, {});
  const auto row =
      recorder.table<OldAskedRow>().claim({64, recorder.now(), 5, 1, OpKind::kBarrier, DType::kU8, {}, 1, 0});
  const std::vector<CollectiveCall> launches = launches_of();
  ASSERT_EQ(launches.size(), 5U);
  EXPECT_EQ(launches[0].collective_number, 1U);
  EXPECT_EQ(launches[1].collective_number, 1U);
  EXPECT_EQ(launches[2].collective_number, 2U);
  EXPECT_EQ(launches[3].collective_number, 3U);
  EXPECT_EQ(launches[4].collective_number, 4U);
  EXPECT_EQ(launches[4].operations[0].kind, "barrier");
  EXPECT_FALSE(launches[4].is_whole);
}

TEST_F(GroupRecords, OnlyTheLastLaunchesAreGiven) {
  make_group(1, "world");
  for (std::uint32_t i = 1; i <= 10; ++i) run(1, i);
  const std::vector<Group> found = read(3);
  ASSERT_EQ(found[0].launches.size(), 3U);
  EXPECT_EQ(found[0].launches[0].collective_number, 8U);
}

// Records that are not examined must not be counted.
TEST_F(GroupRecords, ThatAreNotLookedAtAreTakenForLost) {
  make_group(1, "world");
  ask(1, 1, {{.kind = OpKind::kSend, .root = 2}});
  begin(1, 1, 1, 1, {.kind = OpKind::kSend, .root = 2});
  end(1, 1, 1);
  for (std::uint32_t i = 2; i <= 30; ++i) {
    ask(1, i, {{}});
    begin(1, i, i, i - 1);
    end(1, i, i);
  }
  ask(1, 31, {{.kind = OpKind::kSend, .root = 2}});
  ask(1, 32, {{}});
  const std::vector<Group> found = read(4);
  ASSERT_EQ(found[0].launches.size(), 4U);
  EXPECT_EQ(found[0].launches[2].operations[0].kind, "send");
  EXPECT_EQ(found[0].launches[2].collective_number, 0U);
  EXPECT_EQ(found[0].launches[3].collective_number, 30U);
  EXPECT_EQ(read(1000)[0].launches[30].collective_number, 2U);
}

TEST_F(GroupRecords, ThatMakeNoSenseAreLeftOutAndCounted) {
  make_group(1, "world");
  run(1, 1);
  ask(1, 2, {{.kind = OpKind::kSend, .root = 3}});
  ask(1, 0, {{}});
  begin(1, 0, 2, 2);
  ask(1, 3, {{.count = -1}});
  EXPECT_EQ(launches_of().size(), 1U);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find(recorder.path() + ": 4 records"), std::string::npos) << problems[0];
}

// The bytes of a row that was being written when its process was killed.
TEST_F(GroupRecords, ATornRowIsToldAndTheRestIsRead) {
  make_group(1, "world");
  run(1, 1);
  running_rows.push_back(recorder.table<RunningRow>().claim(
      {.begun = 0x5eed5eed5eed, .ended = 1, .when = recorder.now(), .task = 1, .group = 1, .operations = 1}));
  std::fstream file(recorder.path(), std::ios::in | std::ios::out | std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::uint64_t annotation = 0x5eed5eed5eed;
  const std::size_t at = bytes.find(std::string(reinterpret_cast<const char*>(&annotation), sizeof annotation));
  ASSERT_NE(at, std::string::npos);
  file.clear();
  file.seekp(static_cast<std::streamoff>(at));
  file.put('\x01').flush();
  const std::vector<CollectiveCall> launches = launches_of();
  ASSERT_EQ(launches.size(), 1U);
  EXPECT_EQ(launches[0].stage, Stage::kDone);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find("1 rows of table comm_running are torn"), std::string::npos) << problems[0];
}

}  // namespace
}  // namespace tessera::analysis
