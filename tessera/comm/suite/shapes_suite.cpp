// Launches of unusual shapes: many operations at once, empty chunks, all rows to one rank, many ranks.
#include <algorithm>

#include "tessera/comm/suite/comm_suite.h"

namespace tessera::comm::suite {
namespace {

Operation ints(OpKind kind, const Ints& in, const Ints& out, std::int64_t count) {
  return {.kind = kind, .dtype = DType::kI32, .in = in.bytes(), .out = out.bytes(), .count = count};
}

// Rows of one element, `sizes[p]` for rank p.
struct Rows {
  Longs in_offsets;
  Longs in_sizes;
  Longs out_offsets;

  using Numbers = std::initializer_list<std::int64_t>;
  Rows(const CaseRank& member, Numbers from, Numbers sizes, Numbers to)
      : in_offsets(member, from), in_sizes(member, sizes), out_offsets(member, to) {}

  [[nodiscard]] Operation operation(const Ints& in, const Ints& out) const {
    Operation op = ints(OpKind::kRaggedAllToAll, in, out, 1);
    op.rows = {.in_offsets = in_offsets.data(), .in_sizes = in_sizes.data(), .out_offsets = out_offsets.data()};
    op.in_rows = in.count();
    op.out_rows = out.count();
    return op;
  }
};

}  // namespace

TEST_P(CommSuite, OperationsOfEveryKindRunInOneLaunch) {
  on_ranks(2, [](CaseRank& member) {
    for (const std::int64_t count : {3, 20'000}) {
      Ints in(member, Where::kDevice, 2 * count);
      in.number(member.rank());
      std::vector<std::unique_ptr<Ints>> outs;
      std::vector<Operation> batch;
      for (const OpKind kind : {OpKind::kAllGather, OpKind::kAllToAll, OpKind::kBroadcast, OpKind::kPermute}) {
        outs.push_back(std::make_unique<Ints>(member, Where::kDevice, 2 * count));
        batch.push_back(ints(kind, in, *outs.back(), count));
        if (kind == OpKind::kPermute) batch.back().targets = {1, 0};
        if (kind == OpKind::kBroadcast) batch.back().root = 1;
      }
      batch.push_back({.kind = OpKind::kBarrier});
      member.group.launch(batch, member.stream).wait();
      for (int peer = 0; peer < 2; ++peer) {
        outs[0]->expect_from(peer, 0, peer * count, count);
        outs[1]->expect_from(peer, member.rank() * count, peer * count, count);
      }
      outs[2]->expect_from(1, 0, 0, count);
      outs[3]->expect_from(1 - member.rank(), 0, 0, count);
    }
  });
}

TEST_P(CommSuite, OperationsOfOneLaunchFeedEachOther) {
  on_ranks(3, [](CaseRank& member) {
    for (const std::int64_t count : {3, 20'000}) {
      const Ints x(member, Where::kDevice, count);
      std::fill_n(x.data(), count, 1);
      const std::vector<Operation> batch(4, ints(OpKind::kAllReduce, x, x, count));
      member.group.launch(batch, member.stream).wait();
      for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(x.data()[i], 81);
    }
  });
}

TEST_P(CommSuite, ALaunchOfWhichOneOperationDiffersNamesThatOne) {
  on_ranks(3, [](CaseRank& member) {
    const Ints x(member, Where::kDevice, 64);
    const Ints y(member, Where::kDevice, 64);
    const Operation batch[] = {ints(OpKind::kAllReduce, x, y, 5),
                               ints(OpKind::kAllGather, x, y, member.rank() == 0 ? 6 : 7)};
    expect_error<MismatchError>([&] { member.group.launch(batch, member.stream).wait(); },
                                {"ranks 1 and 2 run all_gather(i32[7]), rank 0 all_gather(i32[6])"});
    member.stream.reset_error();
  });
}

TEST_P(CommSuite, TensorsOfOneCountAndDifferentShapesDiffer) {
  on_ranks(2, [](CaseRank& member) {
    const Ints x(member, Where::kDevice, 16);
    Operation op = ints(OpKind::kAllReduce, x, x, 16);
    op.geometry.is_stated = true;
    if (member.rank() == 0) {
      op.geometry.sizes = {4, 4};
    } else {
      op.geometry.sizes = {16};
    }
    expect_error<MismatchError>([&] { member.group.launch(op, member.stream).wait(); }, {"[4, 4]", "[16]"});
    member.stream.reset_error();
  });
}

TEST_P(CommSuite, RanksThatSplitALaunchDifferentlyDiffer) {
  on_ranks(2, [](CaseRank& member) {
    const Ints x(member, Where::kDevice, 64);
    std::fill_n(x.data(), 64, 0);
    const Operation op = ints(OpKind::kAllReduce, x, x, 5);
    const std::vector<Operation> batch(2, op);
    expect_error<MismatchError>(
        [&] {
          if (member.rank() == 0) {
            member.group.launch(batch, member.stream).wait();
          } else {
            member.group.launch(op, member.stream).wait();
            member.group.launch(op, member.stream).wait();
          }
        },
        {"ranks differ"});
    member.stream.reset_error();
  });
}

TEST_P(CommSuite, AllPartsButOneMayBeEmpty) {
  on_ranks(3, [](CaseRank& member) {
    for (const std::int64_t count : {2, 30'000}) {
      const std::int64_t counts[] = {0, count, 0};
      const bool gives = member.rank() == 1;
      Ints in(member, Where::kDevice, gives ? count : 0);
      const Ints out(member, Where::kDevice, count);
      in.number(member.rank());
      member.group.all_gather(in.data(), out.data(), counts, DType::kI32, member.stream).wait();
      out.expect_from(1, 0, 0, count);
      const Ints part(member, Where::kDevice, gives ? count : 0);
      member.group.reduce_scatter(out.data(), part.data(), counts, DType::kI32, {Reduction::kMax}, member.stream)
          .wait();
      if (gives) part.expect_from(1, 0, 0, count);
    }
  });
}

TEST_P(CommSuite, AllMayGiveEverythingToOne) {
  on_ranks(3, [](CaseRank& member) {
    for (const Where where : {Where::kDevice, Where::kHeap}) {
      constexpr std::int64_t kCount = 25'000;
      const bool takes = member.rank() == 2;
      const std::int64_t given[] = {0, 0, kCount};
      const std::int64_t all[] = {kCount, kCount, kCount};
      const std::int64_t none[] = {0, 0, 0};
      Ints in(member, where, kCount);
      const Ints out(member, where, takes ? 3 * kCount : 0);
      in.number(member.rank());
      member.group.all_to_all(in.data(), given, out.data(), takes ? all : none, DType::kI32, member.stream).wait();
      if (!takes) continue;
      for (int peer = 0; peer < 3; ++peer) out.expect_from(peer, 0, peer * kCount, kCount);
    }
  });
}

TEST_P(CommSuite, RaggedRowsOfNobodyTouchNothing) {
  on_ranks(3, [](CaseRank& member) {
    const Ints in(member, Where::kDevice, 8);
    const Ints out(member, Where::kDevice, 8);
    const Rows rows{member, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
    member.group.launch(rows.operation(in, out), member.stream).wait();
    out.expect_untouched(0, 8);
  });
}

TEST_P(CommSuite, RaggedRowsMayAllGoToOne) {
  on_ranks(4, [](CaseRank& member) {
    const std::int64_t me = member.rank();
    Ints in(member, member.mixed(), 9000);
    const Ints out(member, member.mixed(), 40'000);
    in.number(member.rank());
    const Rows rows{member, {0, 0, 500, 0}, {0, 0, 8000 + me, 0}, {0, 0, 10'000 * me, 0}};
    member.group.launch(rows.operation(in, out), member.stream).wait();
    for (int peer = 0; peer < 4; ++peer) {
      const std::int64_t first = 10'000 * peer;
      if (member.rank() != 2) {
        out.expect_untouched(first, 10'000);
      } else {
        out.expect_from(peer, 500, first, 8000 + peer);
        out.expect_untouched(first + 8000 + peer, 2000 - peer);
      }
    }
  });
}

// Earlier work on the stream writes the sizes.
TEST_P(CommSuite, RaggedSizesAreReadWhenTheOperationRuns) {
  on_ranks(2, [](CaseRank& member) {
    const device::Stream side = member.host.create_stream();
    device::Hold hold = side.hold(kSoon);
    Ints in(member, Where::kDevice, 4);
    const Ints out(member, Where::kDevice, 8);
    in.number(member.rank());
    Rows rows{member, {0, 0}, {0, 0}, {0, 0}};
    const Work work = member.group.launch(rows.operation(in, out), side);
    std::fill_n(rows.in_sizes.data(), 2, 2);
    std::fill_n(rows.out_offsets.data(), 2, 4 * member.rank());
    hold.release();
    work.wait();
    for (int peer = 0; peer < 2; ++peer) out.expect_from(peer, 0, 4 * peer, 2);
  });
}

TEST_P(CommSuite, RowsThatAreNotAsManyAsExpectedAreNamed) {
  on_ranks(2, [](CaseRank& member) {
    const Ints in(member, Where::kDevice, 4);
    const Ints out(member, Where::kDevice, 4);
    const Rows rows{member, {0, 0}, {1, 2}, {0, 0}};
    const Longs expected(member, {member.rank() == 0 ? 1 : 2, member.rank() == 0 ? 1 : 3});
    Operation op = rows.operation(in, out);
    op.rows.out_sizes = expected.data();
    expect_error<MismatchError>([&] { member.group.launch(op, member.stream).wait(); },
                                {"ragged_all_to_all", "rank 1 sends 2 elements, rank 1 expects 3"});
    member.stream.reset_error();
  });
}

TEST_P(CommSuite, RowsOutsideTheInputEndTheGroup) {
  on_ranks(2, [](CaseRank& member) {
    const Ints in(member, Where::kDevice, 4);
    const Ints out(member, Where::kDevice, 4);
    const Rows rows{member, {0, member.rank() == 0 ? 3 : 0}, {1, member.rank() == 0 ? 2 : 1}, {0, 1}};
    // If a device detects it, no call has thrown before.
    if (member.rank() == 0 && member.host.properties().kind == "host") {
      expect_error<InvalidArgument>([&] { member.group.launch(rows.operation(in, out), member.stream).wait(); },
                                    {"rows for rank 1 must be in [0, 4), got [3, 3 + 2)"});
    } else {
      expect_error<AbortedError>([&] { member.group.launch(rows.operation(in, out), member.stream).wait(); },
                                 {"ragged_all_to_all", "rank 0 failed", "got [3, 3 + 2)"});
    }
    member.stream.reset_error();
  });
}

TEST_P(CommSuite, ManyMoreRanksThanCores) {
  on_ranks(12, [](CaseRank& member) {
    Ints in(member, Where::kDevice, 12 * 50);
    const Ints out(member, Where::kDevice, 12 * 50);
    for (int round = 0; round < 3; ++round) {
      in.number(member.rank());
      member.group.all_to_all(in.data(), out.data(), 50, DType::kI32, member.stream).wait();
      for (int peer = 0; peer < 12; ++peer) out.expect_from(peer, member.rank() * 50, peer * 50, 50);
      const Longs sum(member, {member.rank()});
      member.group.all_reduce(sum.data(), sum.data(), 1, DType::kI64, {}, member.stream).wait();
      ASSERT_EQ(sum.data()[0], 66);
    }
  });
}

TEST_P(CommSuite, ASplitOfASplitIsAGroupLikeAnyOther) {
  on_ranks(6, [](CaseRank& member) {
    const ProcessGroup half = member.group.split(member.rank() % 2);
    const ProcessGroup part = half.split(half.rank() == 0 ? 0 : 1, -half.rank());
    const Longs mine(member, {member.rank()});
    const Longs all(member, {-1, -1});
    part.all_gather(mine.data(), all.data(), 1, DType::kI64, member.stream).wait();
    const int odd = member.rank() % 2;
    EXPECT_EQ(all.data()[0], half.rank() == 0 ? odd : 4 + odd);
    EXPECT_EQ(all.data()[1], half.rank() == 0 ? -1 : 2 + odd);
  });
}

TEST_P(CommSuite, AGroupOfOneRunsEverything) {
  on_ranks(2, [](CaseRank& member) {
    const ProcessGroup alone = member.group.split(member.rank());
    ASSERT_EQ(alone.size(), 1);
    for (const std::int64_t count : {3, 30'000}) {
      Ints in(member, Where::kDevice, count);
      in.number(member.rank());
      for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kAllToAll,
                                OpKind::kBroadcast, OpKind::kReduce, OpKind::kScatter, OpKind::kGather}) {
        const Ints out(member, Where::kDevice, count);
        alone.launch(ints(kind, in, out, count), member.stream).wait();
        out.expect_from(member.rank(), 0, 0, count);
      }
    }
  });
}

TEST_P(CommSuite, TheSameRanksInAnotherOrderAreAnotherGroup) {
  on_ranks(2, [](CaseRank& member) {
    const int forth[] = {0, 1};
    const int back[] = {1, 0};
    const ProcessGroup a = member.group.subgroup(forth);
    const ProcessGroup b = member.group.subgroup(back);
    EXPECT_EQ(a.rank(), 1 - b.rank());
    const Longs mine(member, {member.rank()});
    const Longs all(member, {-1, -1});
    b.all_gather(mine.data(), all.data(), 1, DType::kI64, member.stream).wait();
    EXPECT_EQ(all.data()[0], 1);
    a.all_gather(mine.data(), all.data(), 1, DType::kI64, member.stream).wait();
    EXPECT_EQ(all.data()[0], 0);
  });
}

TEST_P(CommSuite, GroupsAreNamedByWhatTheyCameFromUnlessTold) {
  on_ranks(2, [](CaseRank& member) {
    const int both[] = {0, 1};
    EXPECT_EQ(member.group.subgroup(both).name(), "world/1");
    EXPECT_EQ(member.group.split(7).name(), "world/2:7");
    const ProcessGroup named = member.group.subgroup(both, {.name = "data"});
    EXPECT_EQ(named.name(), "data");
    EXPECT_EQ(named.subgroup(both).name(), "data/1");
    EXPECT_EQ(named.backend(), member.group.backend());
  });
}

}  // namespace tessera::comm::suite
