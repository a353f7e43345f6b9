// Failures of groups: ranks that differ, are late or die; and how the others continue.
#include <thread>

#include "tessera/base/rank.h"
#include "tessera/comm/suite/comm_suite.h"

namespace tessera::comm::suite {
namespace {

Operation reduce_op(const Room& room, std::int64_t count) {
  return {.kind = OpKind::kAllReduce, .dtype = DType::kF32, .in = room.data(), .out = room.data(), .count = count};
}

// Runs an operation on three ranks, where rank 1 differs, and expects an error with these words on all.
using Differs = std::function<Operation(const Room& in, const Room& out, bool differs)>;
void expect_mismatch(const CaseRank& member, const Differs& of, std::initializer_list<std::string_view> words) {
  const Room in(member, Where::kDevice, 400'000);
  const Room out(member, Where::kDevice, 400'000);
  std::fill_n(reinterpret_cast<float*>(in.data()), 100'000, 1.0F);
  const Operation op = of(in, out, member.rank() == 1);
  expect_error<MismatchError>([&] { member.group.launch(op, member.stream).wait(); }, words);
  member.stream.reset_error();
  for (const std::byte byte : out.bytes()) ASSERT_EQ(byte, std::byte{0xCD}) << "bytes moved before ranks agreed";
  expect_error<MismatchError>([&] { member.group.launch({.kind = OpKind::kBarrier}, member.stream).wait(); }, words);
  member.stream.reset_error();
}

void barrier(const CaseRank& member, const ProcessGroup& group) {
  group.launch({.kind = OpKind::kBarrier}, member.stream).wait();
}

// Rank 2 of 3 is lost: the others detect that in this operation and continue without it.
void expect_gone(CaseRank& member, const Operation& op) {
  expect_error<AbortedError>([&] { member.group.launch(op, member.stream).wait(); }, {"group world", "rank 2"});
  member.stream.reset_error();
  const ProcessGroup left = member.group.shrink(kSoon);
  ASSERT_EQ(left.size(), 2);
  EXPECT_EQ(left.rank(), member.rank());
  const Room x(member, Where::kDevice, 80'000);
  std::fill_n(reinterpret_cast<float*>(x.data()), 20'000, 1.0F);
  left.launch(reduce_op(x, 20'000), member.stream).wait();
  EXPECT_EQ(reinterpret_cast<const float*>(x.data())[19'999], 2.0F);
}

}  // namespace

TEST_P(CommSuite, AnotherSizeIsNamed) {
  on_ranks(3, [](CaseRank& member) {
    expect_mismatch(member,
                    [](const Room& in, const Room& out, bool differs) {
                      return Operation{.kind = OpKind::kAllReduce,
                                       .dtype = DType::kF32,
                                       .in = in.data(),
                                       .out = out.data(),
                                       .count = differs ? 90'000 : 100'000};
                    },
                    {"group world", "operation 1", "ranks 0 and 2 run all_reduce(f32[100000], sum)",
                     "rank 1 all_reduce(f32[90000], sum)"});
  });
}

TEST_P(CommSuite, AnotherDTypeIsNamed) {
  on_ranks(3, [](CaseRank& member) {
    expect_mismatch(member,
                    [](const Room& in, const Room& out, bool differs) {
                      return Operation{.kind = OpKind::kAllReduce,
                                       .dtype = differs ? DType::kI32 : DType::kF32,
                                       .in = in.data(),
                                       .out = out.data(),
                                       .count = 100'000};
                    },
                    {"rank 1 all_reduce(i32[100000], sum)"});
  });
}

TEST_P(CommSuite, AnotherReductionIsNamed) {
  on_ranks(3, [](CaseRank& member) {
    expect_mismatch(member,
                    [](const Room& in, const Room& out, bool differs) {
                      return Operation{.kind = OpKind::kAllReduce,
                                       .dtype = DType::kF32,
                                       .reduction = {differs ? Reduction::kMax : Reduction::kSum},
                                       .in = in.data(),
                                       .out = out.data(),
                                       .count = 8};
                    },
                    {"rank 1 all_reduce(f32[8], max)"});
  });
}

TEST_P(CommSuite, AnotherRootIsNamed) {
  on_ranks(3, [](CaseRank& member) {
    expect_mismatch(member,
                    [](const Room& in, const Room& out, bool differs) {
                      return Operation{.kind = OpKind::kBroadcast,
                                       .dtype = DType::kF32,
                                       .root = differs ? 2 : 0,
                                       .in = in.data(),
                                       .out = out.data(),
                                       .count = 8};
                    },
                    {"ranks 0 and 2 run broadcast(f32[8], root 0)", "rank 1 broadcast(f32[8], root 2)"});
  });
}

TEST_P(CommSuite, AnotherOperationIsNamed) {
  on_ranks(3, [](CaseRank& member) {
    expect_mismatch(member,
                    [](const Room& in, const Room& out, bool differs) {
                      return Operation{.kind = differs ? OpKind::kReduceScatter : OpKind::kAllGather,
                                       .dtype = DType::kF32,
                                       .in = in.data(),
                                       .out = out.data(),
                                       .count = 8};
                    },
                    {"run all_gather(f32[8])", "rank 1 reduce_scatter(f32[8], sum)"});
  });
}

TEST_P(CommSuite, OtherPartsAreNamed) {
  on_ranks(3, [](CaseRank& member) {
    expect_mismatch(member,
                    [](const Room& in, const Room& out, bool differs) {
                      return Operation{.kind = OpKind::kAllGather,
                                       .dtype = DType::kF32,
                                       .in = in.data(),
                                       .out = out.data(),
                                       .out_counts = {1, 2, differs ? 4 : 3}};
                    },
                    {"ranks 0 and 2 run all_gather(f32[0], out=[1, 2, 3]), rank 1 all_gather(f32[0], out=[1, 2, 4])"});
  });
}

TEST_P(CommSuite, PartsOfAnAllToAllThatDoNotFitTogetherAreNamed) {
  on_ranks(2, [](CaseRank& member) {
    const Room in(member, Where::kDevice, 64);
    const Room out(member, Where::kDevice, 64);
    const std::int64_t even[] = {2, 2};
    const std::int64_t other[] = {2, 3};
    const bool differs = member.rank() == 0;
    expect_error<MismatchError>(
        [&] {
          member.group.all_to_all(in.data(), differs ? other : even, out.data(), even, DType::kF32, member.stream)
              .wait();
        },
        {"rank 0 sends 3 elements, rank 1 expects 2"});
    member.stream.reset_error();
  });
}

TEST_P(CommSuite, ASkippedOperationIsNamed) {
  on_ranks(3, [](CaseRank& member) {
    const Room x(member, Where::kDevice, 64);
    if (member.rank() != 1) member.group.launch(reduce_op(x, 4), member.stream);
    expect_error<MismatchError>([&] { barrier(member, member.group); },
                                {"operation 1", "ranks 0 and 2 run all_reduce(f32[4], sum), rank 1 barrier"});
    member.stream.reset_error();
  });
}

TEST_P(CommSuite, ADeadlineNamesWhoIsMissingAndTellsWhoComesLate) {
  on_ranks(3, [](CaseRank& member) {
    member.group.set_deadline(1s);  // long enough for the other present rank on a busy machine
    if (member.rank() != 1) {
      expect_error<TimeoutError>([&] { barrier(member, member.group); },
                                 {"group world", "operation 1, barrier", "rank 1 did not arrive within 1 s"});
      member.stream.reset_error();
      CaseRank::say("over " + std::to_string(member.rank()));
    }
    CaseRank::hear("over 0");
    CaseRank::hear("over 2");
    if (member.rank() == 1) {
      expect_error<TimeoutError>([&] { barrier(member, member.group); }, {"rank 1 did not arrive"});
      member.stream.reset_error();
    }
  });
}

TEST_P(CommSuite, ADeadlineThatWasExtendedIsNotTheDeadline) {
  if (is_seeded()) GTEST_SKIP() << "time there does not pass by itself";
  on_ranks(2, [](CaseRank& member) {
    const device::Stream side = member.host.create_stream();
    constexpr auto kFirst = 1s;  // long enough for a busy machine to extend it in time
    member.group.set_deadline(kFirst);
    if (member.rank() == 0) {
      const Work work = member.group.launch({.kind = OpKind::kBarrier}, side);
      while (work.sequence() == 0) std::this_thread::yield();
      member.group.extend_deadline(2 * kSoon);
      // Waits past its first deadline, for a key that no rank sets.
      const auto began = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - began < kFirst) {
        EXPECT_THROW((void)store()->get("never", kFirst), TimeoutError);
      }
      EXPECT_FALSE(work.is_done());
      CaseRank::say("extended");
      work.wait();
    } else {
      CaseRank::hear("extended");
      barrier(member, member.group);
    }
    // The next operation has only its own deadline, which passes while the other rank still waits for the flag.
    member.group.set_deadline(50ms);
    if (member.rank() == 1) CaseRank::hear("over");
    expect_error<TimeoutError>([&] { barrier(member, member.group); }, {"rank 1 did not arrive within 0.05 s"});
    member.stream.reset_error();
    if (member.rank() == 0) CaseRank::say("over");
  });
}

TEST_P(CommSuite, ARankThatDiedBeforeAnOperationIsNoticed) {
  on_ranks(3, &Capabilities::has_shrink, [](CaseRank& member) {
    barrier(member, member.group);
    if (member.rank() == 2) CaseRank::die();
    const Room x(member, Where::kDevice, 64);
    expect_gone(member, reduce_op(x, 4));
  });
}

TEST_P(CommSuite, ARankThatDiedBetweenLargeOperationsIsNoticed) {
  on_ranks(3, &Capabilities::has_shrink, [](CaseRank& member) {
    const Room x(member, Where::kDevice, 400'000);
    std::fill_n(reinterpret_cast<float*>(x.data()), 100'000, 0.0F);
    for (int i = 0; i < 3; ++i) member.group.launch(reduce_op(x, 100'000), member.stream).wait();
    if (member.rank() == 2) CaseRank::die();
    expect_gone(member, reduce_op(x, 100'000));
  });
}

TEST_P(CommSuite, ARankThatDiedWhileItsMessageIsWaitedForIsNoticed) {
  if (!has_messages()) GTEST_SKIP() << "the backend has no send and recv";
  on_ranks(3, &Capabilities::has_shrink, [](CaseRank& member) {
    barrier(member, member.group);
    if (member.rank() == 2) CaseRank::die();
    const Room x(member, Where::kDevice, 64);
    expect_gone(member, {.kind = OpKind::kRecv, .dtype = DType::kF32, .peer = 2, .out = x.data(), .count = 4});
  });
}

// The others are in the operation when it dies: it announces that only through the store, and dies in its own body.
TEST_P(CommSuite, ARankThatDiesWhileOthersWaitIsNoticed) {
  on_ranks(3, &Capabilities::has_shrink, [](CaseRank& member) {
    barrier(member, member.group);
    if (member.rank() == 2) {
      CaseRank::hear("here 0");
      CaseRank::hear("here 1");
      CaseRank::die();
    }
    CaseRank::say("here " + std::to_string(member.rank()));
    expect_gone(member, {.kind = OpKind::kBarrier});
  });
}

TEST_P(CommSuite, TwoDeathsInARowLeaveOne) {
  on_ranks(3, &Capabilities::has_shrink, [](CaseRank& member) {
    barrier(member, member.group);
    if (member.rank() == 2) CaseRank::die();
    expect_error<AbortedError>([&] { barrier(member, member.group); }, {"rank 2"});
    member.stream.reset_error();
    const ProcessGroup pair = member.group.shrink(kSoon);
    barrier(member, pair);
    if (member.rank() == 0) CaseRank::die();
    expect_error<AbortedError>([&] { barrier(member, pair); }, {"rank 0"});
    member.stream.reset_error();
    const ProcessGroup alone = pair.shrink(kSoon);
    EXPECT_EQ(alone.size(), 1);
    barrier(member, alone);
  });
}

TEST_P(CommSuite, AnAbortReachesAllWithItsReason) {
  on_ranks(3, [](CaseRank& member) {
    if (member.rank() == 1) {
      member.group.abort("no more disk");
      member.group.abort("something else");
    }
    expect_error<AbortedError>([&] { barrier(member, member.group); }, {"aborted by rank 1: no more disk"});
    member.stream.reset_error();
  });
}

TEST_P(CommSuite, AnAbortEndsWhatIsPendingOnManyStreams) {
  on_ranks(2, [](CaseRank& member) {
    const device::Stream side = member.host.create_stream();
    if (member.rank() == 0) {
      std::vector<Work> works;
      for (int i = 0; i < 5; ++i) works.push_back(member.group.launch({.kind = OpKind::kBarrier}, side));
      CaseRank::say("pending");
      for (const Work& work : works) {
        EXPECT_THROW(work.wait(), Error);
      }
      EXPECT_NE(works[0].error(), nullptr);
      side.reset_error();
    } else {
      CaseRank::hear("pending");
      member.group.abort("enough");
    }
  });
}

TEST_P(CommSuite, AgreementWithoutAFailureHoldsEverybody) {
  on_ranks(4, [](CaseRank& member) {
    EXPECT_EQ(member.group.agree(kSoon), (std::vector<int>{0, 1, 2, 3}));
    barrier(member, member.group);
  });
}

TEST_P(CommSuite, MembershipIsTheSameEverywhereTwentyTimes) {
  for (int round = 0; round < 20; ++round) {
    on_ranks(4, &Capabilities::has_shrink, [round](CaseRank& member) {
      barrier(member, member.group);
      const int first = round % 4;
      const int second = round % 3 == 0 ? (round / 4 + 1) % 4 : first;
      if (member.rank() == first || member.rank() == second) CaseRank::die();
      const ProcessGroup left = member.group.shrink(kSoon);
      std::string names;
      for (const Rank rank : left.ranks()) names += to_string(rank) + " ";
      const std::string agreed = *store()->compare_set("membership", std::nullopt, names);
      EXPECT_EQ(agreed, names);
      EXPECT_EQ(left.size(), first == second ? 3 : 2);
      barrier(member, left);
    });
  }
}

TEST_P(CommSuite, ShrinkingWhereItCannotBeSaysSo) {
  on_ranks(2, [](CaseRank& member) {
    if (!member.can().has_shrink) {
      expect_error<NotSupported>([&] { (void)member.group.shrink(kSoon); }, {"cannot shrink", "shm"});
    }
    barrier(member, member.group);
  });
}

TEST_P(CommSuite, ArgumentsThatMakeNoSenseAreRefusedAndHurtNothing) {
  on_ranks(2, [](CaseRank& member) {
    const Room x(member, Where::kDevice, 256);
    const auto refused = [&](const Operation& op, std::string_view words) {
      expect_error<InvalidArgument>([&] { (void)member.group.launch(op, member.stream); }, {words});
    };
    Operation op = reduce_op(x, -1);
    refused(op, "], got -1");
    op = reduce_op(x, 4);
    op.in = nullptr;
    refused(op, "input must be the address of");
    op = reduce_op(x, 4);
    op.in = x.data() + 4;
    refused(op, "overlap");
    op = reduce_op(x, 4);
    op.kind = OpKind::kReduce;
    op.root = 2;
    refused(op, "root must be in [0, 1], got 2");
    op = reduce_op(x, 4);
    op.reduction.kind = Reduction::kBitAnd;
    refused(op, "dtype must be one that band is defined for, got f32");
    expect_error<InvalidArgument>([&] { (void)member.group.launch(std::span<const Operation>(), member.stream); },
                                  {"must have at least one operation"});
    barrier(member, member.group);
    EXPECT_EQ(member.group.sequence(), 1U);
  });
}

TEST_P(CommSuite, ARankThatEndsWellLeavesWithoutAWord) {
  on_ranks(3, [](CaseRank& member) {
    const Room x(member, Where::kDevice, 400'000);
    std::fill_n(reinterpret_cast<float*>(x.data()), 100'000, 1.0F);
    member.group.launch(reduce_op(x, 100'000), member.stream).wait();
    EXPECT_EQ(reinterpret_cast<const float*>(x.data())[5], 3.0F);
    if (member.rank() == 1) return;
    expect_error<AbortedError>([&] { barrier(member, member.group); }, {"rank 1 has left the group"});
    member.stream.reset_error();
  });
}

// It has released its groups, and its end takes until the others have noticed.
TEST_P(CommSuite, ARankThatIsAboutToEndHasLeft) {
  if (GetParam().backend != "thread" || is_seeded()) GTEST_SKIP() << "no rank there is seen between the two";
  struct HoldsOn {
    std::shared_ptr<Store> store;
    ~HoldsOn() {
      try {
        if (store != nullptr) (void)store->get("said noticed", 3 * kSoon);
      } catch (const std::exception&) {
        // The other ranks report it.
      }
    }
  };
  GetParam().run(3, [] {
    // Created before its groups, and so destroyed after them.
    auto& held = current_rank()->part<HoldsOn>([] { return std::make_shared<HoldsOn>(); });
    const CaseRank member(GetParam());
    barrier(member, member.group);
    if (member.rank() == 1) {
      held.store = store();
      return;
    }
    expect_error<AbortedError>([&] { barrier(member, member.group); }, {"rank 1 has left the group"});
    member.stream.reset_error();
    CaseRank::say("noticed");
  });
}

}  // namespace tessera::comm::suite
