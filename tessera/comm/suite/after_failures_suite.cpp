// Errors that name rank 0 if it differs, operations after each kind of failure, and failures in replays.
#include <algorithm>
#include <span>

#include "tessera/comm/suite/comm_suite.h"
#include "tessera/device/graph.h"

namespace tessera::comm::suite {
namespace {

using Change = std::function<void(Operation&)>;

// Three ranks enqueue the same operation, except for the `change` of rank 0.
void expect_rank_zero_named(const CaseRank& member, Operation op, const Change& change, std::string_view words) {
  const Ints in(member, Where::kDevice, 100);
  const Ints out(member, Where::kDevice, 100);
  op.dtype = op.reduction.kind == Reduction::kPremultiply ? DType::kF32 : DType::kI32;
  op.in = in.bytes();
  op.out = out.bytes();
  if (member.rank() == 0) change(op);
  expect_error<MismatchError>([&] { member.group.launch(op, member.stream).wait(); },
                              {"group world: operation 1", "ranks 1 and 2 run", words});
  member.stream.reset_error();
  out.expect_untouched(0, 100);
}

void barrier(const CaseRank& member, const ProcessGroup& group) {
  group.launch({.kind = OpKind::kBarrier}, member.stream).wait();
}

// The group has failed; all ranks survive and continue as a new group.
void expect_new_group(const CaseRank& member, int size) {
  const ProcessGroup left = member.group.shrink(kSoon);
  ASSERT_EQ(left.size(), size);
  const Longs sum(member, {1});
  left.all_reduce(sum.data(), sum.data(), 1, DType::kI64, {}, member.stream).wait();
  EXPECT_EQ(sum.data()[0], size);
  expect_error<Error>([&] { barrier(member, member.group); });
  member.stream.reset_error();
}

// Throws the error that ended a replay: the stream throws it on the host, the next launch on a device.
void ask(const CaseRank& member, const device::Stream& stream) {
  stream.synchronize();
  if (member.host.properties().kind != "host") barrier(member, member.group);
}

// Captures a graph with one barrier of the group.
device::GraphExec captured_barrier(const CaseRank& member, const device::Stream& stream) {
  stream.begin_capture();
  (void)member.group.launch({.kind = OpKind::kBarrier}, stream);
  return stream.end_capture().instantiate();
}

}  // namespace

TEST_P(CommSuite, RankZeroIsNamedForAnotherSize) {
  on_ranks(3, [](CaseRank& member) {
    expect_rank_zero_named(
        member, {.kind = OpKind::kAllReduce, .count = 8}, [](Operation& op) { op.count = 9; },
        "rank 0 all_reduce(i32[9], sum)");
  });
}

TEST_P(CommSuite, RankZeroIsNamedForAnotherDType) {
  on_ranks(3, [](CaseRank& member) {
    expect_rank_zero_named(
        member, {.kind = OpKind::kAllReduce, .count = 8}, [](Operation& op) { op.dtype = DType::kF32; },
        "rank 0 all_reduce(f32[8], sum)");
  });
}

TEST_P(CommSuite, RankZeroIsNamedForAnotherRoot) {
  on_ranks(3, [](CaseRank& member) {
    expect_rank_zero_named(
        member, {.kind = OpKind::kBroadcast, .root = 1, .count = 8}, [](Operation& op) { op.root = 0; },
        "rank 0 broadcast(i32[8], root 0)");
  });
}

TEST_P(CommSuite, RankZeroIsNamedForAnotherReduction) {
  on_ranks(3, [](CaseRank& member) {
    expect_rank_zero_named(
        member, {.kind = OpKind::kReduce, .count = 8}, [](Operation& op) { op.reduction.kind = Reduction::kMin; },
        "rank 0 reduce(i32[8], min, root 0)");
  });
}

TEST_P(CommSuite, RankZeroIsNamedForAnotherFactor) {
  on_ranks(3, [](CaseRank& member) {
    Operation op{.kind = OpKind::kAllReduce, .reduction = {Reduction::kPremultiply, 2}, .count = 8};
    expect_rank_zero_named(
        member, op, [](Operation& other) { other.reduction.factor = 3; },
        "rank 0 all_reduce(f32[8], premultiplied sum by 3)");
  });
}

TEST_P(CommSuite, RankZeroIsNamedForAnotherOperation) {
  on_ranks(3, [](CaseRank& member) {
    expect_rank_zero_named(
        member, {.kind = OpKind::kAllGather, .count = 8}, [](Operation& op) { op.kind = OpKind::kAllToAll; },
        "rank 0 all_to_all(i32[8])");
  });
}

TEST_P(CommSuite, RankZeroIsNamedForOtherParts) {
  on_ranks(3, [](CaseRank& member) {
    expect_rank_zero_named(
        member, {.kind = OpKind::kReduceScatter, .in_counts = {1, 2, 3}},
        [](Operation& op) {
          op.in_counts = {3, 2, 1};
        },
        "rank 0 reduce_scatter(i32[0], sum, in=[3, 2, 1])");
  });
}

TEST_P(CommSuite, RankZeroIsNamedForOtherTargets) {
  on_ranks(3, [](CaseRank& member) {
    expect_rank_zero_named(
        member, {.kind = OpKind::kPermute, .count = 8, .targets = {1, 2, 0}},
        [](Operation& op) {
          op.targets = {2, 0, 1};
        },
        "rank 0 permute(i32[8], to=[2, 0, 1])");
  });
}

TEST_P(CommSuite, TwoRanksThatDifferAreBothShown) {
  on_ranks(2, [](CaseRank& member) {
    const Ints x(member, Where::kDevice, 10);
    Operation op{.kind = OpKind::kAllReduce, .dtype = DType::kI32, .in = x.bytes(), .out = x.bytes(), .count = 8};
    if (member.rank() == 1) op.count = 9;
    expect_error<MismatchError>([&] { member.group.launch(op, member.stream).wait(); },
                                {"all_reduce(i32[8], sum)", "all_reduce(i32[9], sum)", "rank 0", "rank 1"});
    member.stream.reset_error();
  });
}

TEST_P(CommSuite, AfterAFailureEveryOperationOnEveryStreamSaysTheSame) {
  on_ranks(2, [has_messages = has_messages()](CaseRank& member) {
    const device::Stream side = member.host.create_stream();
    const Ints x(member, Where::kDevice, 8);
    if (member.rank() == 0) member.group.abort("the end");
    for (const device::Stream& stream : {member.stream, side, member.stream}) {
      for (const OpKind kind : {OpKind::kBarrier, OpKind::kAllReduce, OpKind::kSend}) {
        if (kind == OpKind::kSend && !has_messages) continue;
        const Operation op{.kind = kind,
                           .dtype = DType::kI32,
                           .peer = 1 - member.rank(),
                           .in = x.bytes(),
                           .out = x.bytes(),
                           .count = 4};
        expect_error<AbortedError>([&] { member.group.launch(op, stream).wait(); }, {"aborted by rank 0: the end"});
        stream.reset_error();
      }
    }
  });
}

TEST_P(CommSuite, AllGoOnAfterAnAbort) {
  on_ranks(3, &Capabilities::has_shrink, [](CaseRank& member) {
    if (member.rank() == 2) member.group.abort("once more");
    expect_error<AbortedError>([&] { barrier(member, member.group); }, {"once more"});
    member.stream.reset_error();
    expect_new_group(member, 3);
  });
}

TEST_P(CommSuite, AllGoOnAfterAMismatch) {
  on_ranks(3, &Capabilities::has_shrink, [](CaseRank& member) {
    const Ints x(member, Where::kDevice, 10);
    const Operation op{.kind = OpKind::kAllReduce,
                       .dtype = DType::kI32,
                       .in = x.bytes(),
                       .out = x.bytes(),
                       .count = member.rank() + 1};
    expect_error<MismatchError>([&] { member.group.launch(op, member.stream).wait(); }, {"ranks differ"});
    member.stream.reset_error();
    expect_new_group(member, 3);
  });
}

TEST_P(CommSuite, AllGoOnAfterADeadline) {
  on_ranks(2, &Capabilities::has_shrink, [](CaseRank& member) {
    member.group.set_deadline(50ms);
    if (member.rank() == 0) {
      expect_error<TimeoutError>([&] { barrier(member, member.group); }, {"rank 1 did not arrive"});
      member.stream.reset_error();
      CaseRank::say("too late");
    }
    CaseRank::hear("too late");
    member.group.set_deadline(kSoon);
    expect_new_group(member, 2);
  });
}

TEST_P(CommSuite, AGroupThatDidNotFailGoesOnWhenAnotherFails) {
  on_ranks(3, [](CaseRank& member) {
    const int pair[] = {0, 1};
    const ProcessGroup small = member.group.subgroup(pair);
    barrier(member, member.group);
    if (member.rank() == 2) member.group.abort("of the world alone");
    expect_error<AbortedError>([&] { barrier(member, member.group); }, {"of the world alone"});
    member.stream.reset_error();
    if (small) barrier(member, small);
  });
}

TEST_P(CommSuite, GroupsAreMadeOfAGroupThatWasMadeAfterAFailure) {
  on_ranks(3, &Capabilities::has_shrink, [](CaseRank& member) {
    barrier(member, member.group);
    if (member.rank() == 1) CaseRank::die();
    expect_error<AbortedError>([&] { barrier(member, member.group); }, {"rank 1"});
    member.stream.reset_error();
    const ProcessGroup left = member.group.shrink(kSoon);
    const ProcessGroup back = left.split(0, -left.rank());
    const Longs mine(member, {member.rank()});
    const Longs all(member, {-1, -1});
    back.all_gather(mine.data(), all.data(), 1, DType::kI64, member.stream).wait();
    EXPECT_EQ(all.data()[0], 2);
    EXPECT_EQ(all.data()[1], 0);
  });
}

TEST_P(CommSuite, AnAbortTwiceOrAfterTheEndHurtsNobody) {
  on_ranks(2, [](CaseRank& member) {
    barrier(member, member.group);
    const ProcessGroup alone = member.group.split(member.rank());
    alone.abort("one");
    alone.abort("two");
    expect_error<AbortedError>([&] { barrier(member, alone); },
                               {"aborted by rank " + std::to_string(member.rank()), ": one"});
    member.stream.reset_error();
    barrier(member, member.group);
  });
}

TEST_P(CommSuite, AnAbortEndsAReplay) {
  on_ranks(2, &Capabilities::has_capture, [](CaseRank& member) {
    const device::Stream side = member.host.create_stream();
    const device::GraphExec graph = captured_barrier(member, side);
    graph.launch(side);
    side.synchronize();
    if (member.rank() == 0) {
      graph.launch(side);
      graph.launch(side);
      CaseRank::say("replays");
    } else {
      CaseRank::hear("replays");
      member.group.abort("no more replays");
    }
    expect_error<AbortedError>([&] { member.group.launch({.kind = OpKind::kBarrier}, member.stream).wait(); },
                               {"no more replays"});
    member.stream.reset_error();
    if (member.rank() == 0) {
      EXPECT_THROW(ask(member, side), Error);
      side.reset_error();
    }
  });
}

TEST_P(CommSuite, ADeadlineEndsAReplay) {
  on_ranks(2, &Capabilities::has_capture, [](CaseRank& member) {
    const device::Stream side = member.host.create_stream();
    member.group.set_deadline(50ms);
    const device::GraphExec graph = captured_barrier(member, side);
    if (member.rank() == 0) {
      graph.launch(side);
      expect_error<TimeoutError>([&] { ask(member, side); }, {"barrier", "rank 1 did not arrive within 0.05 s"});
      side.reset_error();
      member.stream.reset_error();
      CaseRank::say("it is over");
    }
    CaseRank::hear("it is over");
  });
}

TEST_P(CommSuite, EagerOperationsAndReplaysOfSeveralGraphsMix) {
  on_ranks(2, &Capabilities::has_capture, [](CaseRank& member) {
    const device::Stream side = member.host.create_stream();
    const Ints x(member, Where::kDevice, 20'000);
    std::fill_n(x.data(), 20'000, 1);
    const auto reduce = [&](std::int64_t count) {
      return member.group.all_reduce(x.data(), x.data(), count, DType::kI32, {}, side);
    };
    std::vector<device::GraphExec> graphs;
    for (const std::int64_t count : {20'000, 1}) {
      side.begin_capture();
      (void)reduce(count);
      graphs.push_back(side.end_capture().instantiate());
    }
    for (int round = 0; round < 3; ++round) {
      graphs[0].launch(side);
      (void)reduce(20'000);
      graphs[1].launch(side);
    }
    side.synchronize();
    EXPECT_EQ(x.data()[19'999], 64);
    EXPECT_EQ(x.data()[0], 512);
    EXPECT_EQ(member.group.sequence(), 9U);
  });
}

TEST_P(CommSuite, MessagesAreCapturedAndReplayed) {
  if (!has_messages()) GTEST_SKIP() << "the backend has no send and recv";
  on_ranks(2, &Capabilities::has_capture, [](CaseRank& member) {
    const device::Stream side = member.host.create_stream();
    const Ints x(member, Where::kDevice, 30'000);
    const bool sends = member.rank() == 0;
    const Operation op{.kind = sends ? OpKind::kSend : OpKind::kRecv,
                       .dtype = DType::kI32,
                       .peer = 1 - member.rank(),
                       .in = x.bytes(),
                       .out = x.bytes(),
                       .count = x.count()};
    side.begin_capture();
    (void)member.group.launch(op, side);
    const device::GraphExec graph = side.end_capture().instantiate();
    for (int round = 1; round < 4; ++round) {
      std::fill_n(x.data(), x.count(), sends ? round : 0);
      graph.launch(side);
      side.synchronize();
      ASSERT_EQ(x.data()[29'999], round);
    }
  });
}

TEST_P(CommSuite, WorkThatIsWaitedForOnAnotherStreamIsInOrder) {
  on_ranks(2, [](CaseRank& member) {
    const device::Stream side = member.host.create_stream();
    const device::Stream third = member.host.create_stream();
    const Ints x(member, Where::kDevice, 20'000);
    std::fill_n(x.data(), 20'000, 1);
    for (int round = 0; round < 5; ++round) {
      member.group.all_reduce(x.data(), x.data(), 20'000, DType::kI32, {}, side).wait_on(third);
      third.run([&x] { std::ranges::for_each(std::span(x.data(), 20'000), [](std::int32_t& value) { value += 1; }); });
      const device::Event done = member.host.create_event();
      third.record(done);
      side.wait(done);
    }
    side.synchronize();
    third.synchronize();
    EXPECT_EQ(x.data()[19'999], 63);  // doubled plus one, five times
  });
}

TEST_P(CommSuite, ADeadlineIsThatOfTheGroupThatAskedForTheOperation) {
  on_ranks(2, [](CaseRank& member) {
    const int both[] = {0, 1};
    const ProcessGroup hasty = member.group.subgroup(both, {.name = "hasty", .deadline = 60ms});
    barrier(member, member.group);
    if (member.rank() == 0) {
      expect_error<TimeoutError>([&] { barrier(member, hasty); }, {"group hasty", "within 0.06 s"});
      member.stream.reset_error();
      CaseRank::say("it is over");
    }
    CaseRank::hear("it is over");
  });
}

}  // namespace tessera::comm::suite
