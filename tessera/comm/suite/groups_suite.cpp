// Groups created from groups, and groups used at the same time.
#include <numeric>

#include "tessera/comm/suite/comm_suite.h"

namespace tessera::comm::suite {
namespace {

// Returns the world ranks of the group's members, exchanged by an all_gather.
std::vector<int> members_of(const ProcessGroup& group, const CaseRank& member) {
  const Ints own(member, Where::kHeap, 1);
  const Ints all(member, Where::kHeap, group.size());
  *own.data() = world().rank();
  group.all_gather(own.data(), all.data(), 1, DType::kI32, member.stream).wait();
  return {all.data(), all.data() + all.count()};
}

}  // namespace

TEST_P(CommSuite, TheWorldHoldsAllRanksInOrder) {
  on_ranks(4, [](CaseRank& member) {
    EXPECT_EQ(member.group.name(), "world");
    EXPECT_EQ(member.size(), 4);
    EXPECT_EQ(members_of(member.group, member), (std::vector<int>{0, 1, 2, 3}));
  });
}

TEST_P(CommSuite, ASubgroupHasTheOrderItWasGiven) {
  on_ranks(4, [](CaseRank& member) {
    const int places[] = {3, 0, 2};
    const ProcessGroup group = member.group.subgroup(places);
    ASSERT_EQ(static_cast<bool>(group), member.rank() != 1);
    if (!group) return;
    EXPECT_EQ(members_of(group, member), (std::vector<int>{3, 0, 2}));
  });
}

TEST_P(CommSuite, AGroupOfAGroupCountsItsPlaces) {
  on_ranks(4, [](CaseRank& member) {
    const int outer[] = {3, 1, 0};
    const ProcessGroup group = member.group.subgroup(outer);
    if (!group) return;
    const int inner[] = {1, 0};
    const ProcessGroup pair = group.subgroup(inner);
    ASSERT_EQ(static_cast<bool>(pair), group.rank() != 2);
    if (pair) {
      EXPECT_EQ(members_of(pair, member), (std::vector<int>{1, 3}));
    }
  });
}

TEST_P(CommSuite, SplitGoesByColourThenKeyThenPlace) {
  on_ranks(5, [](CaseRank& member) {
    const int colours[] = {0, 1, 0, -1, 0};
    const int keys[] = {5, 0, 5, 0, -1};
    const auto at = static_cast<std::size_t>(member.rank());
    const ProcessGroup group = member.group.split(colours[at], keys[at]);
    ASSERT_EQ(static_cast<bool>(group), colours[at] != -1);
    if (!group) return;
    EXPECT_EQ(members_of(group, member), member.rank() == 1 ? std::vector<int>{1} : (std::vector<int>{4, 0, 2}));
  });
}

TEST_P(CommSuite, GroupsOfTheSameRanksShareOneCommunicator) {
  on_ranks(2, [](CaseRank& member) {
    const int both[] = {0, 1};
    const ProcessGroup first = member.group.subgroup(both, {.name = "first"});
    const ProcessGroup second = member.group.subgroup(both, {.name = "second"});
    first.launch({.kind = OpKind::kBarrier}, member.stream).wait();
    second.launch({.kind = OpKind::kBarrier}, member.stream).wait();
    EXPECT_EQ(first.name(), "first");
    EXPECT_EQ(second.name(), "second");
    EXPECT_EQ(second.sequence(), 2U);
  });
}

TEST_P(CommSuite, GroupsThatOverlapWorkInTurns) {
  on_ranks(3, [](CaseRank& member) {
    const int low[] = {0, 1};
    const int high[] = {1, 2};
    const ProcessGroup a = member.group.subgroup(low);
    const ProcessGroup b = member.group.subgroup(high);
    const Longs longs(member, {member.rank() + 1, 0});
    const std::int64_t* in = longs.data();
    std::int64_t& sum = longs.data()[1];
    for (int round = 0; round < 30; ++round) {
      if (a) {
        a.all_reduce(in, &sum, 1, DType::kI64, {}, member.stream).wait();
        EXPECT_EQ(sum, 3);
      }
      if (b) {
        b.all_reduce(in, &sum, 1, DType::kI64, {}, member.stream).wait();
        EXPECT_EQ(sum, 5);
      }
      member.group.all_reduce(in, &sum, 1, DType::kI64, {}, member.stream).wait();
      EXPECT_EQ(sum, 6);
    }
  });
}

TEST_P(CommSuite, EverySubsetOfFourCanBeAGroup) {
  on_ranks(4, [](CaseRank& member) {
    for (unsigned set = 1; set < 16; ++set) {
      std::vector<int> places;
      for (int rank = 0; rank < 4; ++rank) {
        if ((set >> rank & 1U) != 0) places.push_back(rank);
      }
      const ProcessGroup group = member.group.subgroup(places);
      if (group) {
        EXPECT_EQ(members_of(group, member), places);
      }
    }
  });
}

TEST_P(CommSuite, GroupsThatMakeNoSenseAreRefused) {
  on_ranks(2, [](CaseRank& member) {
    const int twice[] = {0, 0};
    const int outside[] = {0, 2};
    expect_error<InvalidArgument>([&] { (void)member.group.subgroup(twice); }, {"rank 0 twice"});
    expect_error<InvalidArgument>([&] { (void)member.group.subgroup(outside); },
                                  {"subgroup ranks must be in [0, 1], got 2"});
    expect_error<InvalidArgument>([&] { (void)member.group.subgroup({}); }, {"a subgroup must have at least one rank"});
    expect_error<InvalidArgument>([] { (void)ProcessGroup().name(); }, {"this rank is not a member"});
    member.group.launch({.kind = OpKind::kBarrier}, member.stream).wait();
  });
}

TEST_P(CommSuite, ABackendThatIsNotThereOrCannotIsNamed) {
  on_ranks(2, [](CaseRank& member) {
    const int both[] = {0, 1};
    expect_error<InvalidArgument>([&] { (void)member.group.subgroup(both, {.backend = "pigeon"}); },
                                  {"unknown backend 'pigeon'", "shm", "thread"});
    const std::string other = world().backend() == "thread" ? "shm" : "thread";
    expect_error<NotSupported>([&] { (void)member.group.subgroup(both, {.backend = other}); },
                               {other + ": the ranks are not"});
  });
}

TEST_P(CommSuite, ASubgroupInheritsTheDeadline) {
  on_ranks(2, [](CaseRank& member) {
    member.group.set_deadline(7s);
    const int both[] = {0, 1};
    EXPECT_EQ(member.group.subgroup(both).deadline(), 7s);
    EXPECT_EQ(member.group.subgroup(both, {.deadline = 3s}).deadline(), 3s);
    expect_error<InvalidArgument>([&] { member.group.set_deadline(0s); }, {"deadline"});
  });
}

}  // namespace tessera::comm::suite
