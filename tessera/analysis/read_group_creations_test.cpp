// Group creations in the records of ranks: written by comm, read back here.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "tessera/analysis/read_run.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/group_creation_record.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/records.h"
#include "tessera/comm/world.h"

namespace tessera::analysis {
namespace {

using namespace std::chrono_literals;

// Returns the group creations of the rank of this thread, from its current record.
std::vector<GroupCreation> creations_now() { return read_record(probe::recorder().path()).ranks.front().creations; }
const GroupCreation* find(const std::vector<GroupCreation>& creations, const std::string& what) {
  const auto found = std::ranges::find(creations, what, &GroupCreation::what);
  return found == creations.end() ? nullptr : &*found;
}

TEST(ReadGroupCreations, GroupsThatAreMadeAreToldWithTheirRanks) {
  simulate(3, [] {
    const comm::ProcessGroup half = comm::world().split(current_place().rank.value() == 2 ? 1 : 0, 0, {.name = "half"});
    const std::vector<GroupCreation> creations = creations_now();
    const GroupCreation* split = find(creations, "split 1 of group world");
    ASSERT_NE(split, nullptr);
    EXPECT_EQ(split->from, "world");
    EXPECT_EQ(split->number, 1U);
    EXPECT_EQ(split->ranks, (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(split->stage, Stage::kDone);
    EXPECT_GT(split->since_ns, 0);
    const GroupCreation* group = find(creations, "group half");
    if (half.size() == 1) {
      EXPECT_EQ(group, nullptr) << "nobody is waited for";
    } else {
      ASSERT_NE(group, nullptr);
      EXPECT_EQ(group->ranks, (std::vector<int>{0, 1}));
      EXPECT_EQ(group->stage, Stage::kDone);
    }
  });
}

TEST(ReadGroupCreations, OneThatWaitsAndOneThatFailedAreToldAsSuch) {
  std::atomic<bool> has_looked{false};
  simulate(2, [&] {
    const comm::ProcessGroup world = comm::world();
    if (current_place().rank.value() == 1) {
      while (!has_looked) std::this_thread::yield();
      return;
    }
    {
      const comm::detail::GroupCreationRecord creation("group late", "", 0, world.ranks());
      const GroupCreation* waits = nullptr;
      const std::vector<GroupCreation> creations = creations_now();
      waits = find(creations, "group late");
      ASSERT_NE(waits, nullptr);
      EXPECT_EQ(waits->stage, Stage::kBegun);
      EXPECT_EQ(waits->failure, "");
    }
    world.set_deadline(50ms);
    EXPECT_THROW((void)world.split(0, 0), TimeoutError);
    const std::vector<GroupCreation> creations = creations_now();
    ASSERT_NE(find(creations, "split 1 of group world"), nullptr);
    EXPECT_EQ(find(creations, "split 1 of group world")->stage, Stage::kFailed);
    EXPECT_EQ(find(creations, "split 1 of group world")->failure, "timeout");
    EXPECT_EQ(find(creations, "group late")->failure, "aborted") << "it was never done";
    has_looked = true;
  });
}

TEST(ReadGroupCreations, TheLastOnesStay) {
  simulate(2, [] {
    for (int i = 0; i < 10; ++i) (void)comm::world().split(0, 0);
    const std::vector<GroupCreation> creations = creations_now();
    EXPECT_EQ(creations.size(), comm::GroupCreationRow::kRows);
    EXPECT_EQ(find(creations, "split 1 of group world"), nullptr);
    EXPECT_NE(find(creations, "split 10 of group world"), nullptr);
    EXPECT_TRUE(std::ranges::is_sorted(creations, {}, &GroupCreation::since_ns));
  });
}

TEST(ReadRecord, WhatIsNoRecordIsRefusedByName) {
  const std::string path = "/dev/shm/tessera_no_record_" + std::to_string(::getpid());
  expect_error<IoError>([&] { (void)read_record(path); }, {path});
  const int file = ::creat(path.c_str(), 0600);
  ASSERT_EQ(::write(file, "no record", 9), 9);
  ::close(file);
  expect_error<IoError>([&] { (void)read_record(path); }, {path, "not a record file"});
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tessera::analysis
