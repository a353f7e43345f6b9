// Comparisons between ranks before any transfer: always, and in checked mode (TESSERA_COMM_CHECK=1).
#include "tessera/comm/suite/comm_suite.h"

namespace tessera::comm::suite {
namespace {

Operation all_reduce(const Ints& in, const Ints& out, std::int64_t count) {
  return {.kind = OpKind::kAllReduce, .dtype = DType::kI32, .in = in.bytes(), .out = out.bytes(), .count = count};
}
Operation send(const Ints& what, int to) {
  return {.kind = OpKind::kSend, .dtype = DType::kI32, .peer = to, .in = what.bytes(), .count = what.count()};
}
Operation receive(const Ints& into, int from) {
  return {.kind = OpKind::kRecv, .dtype = DType::kI32, .peer = from, .out = into.bytes(), .count = into.count()};
}

void expect_mismatch(const CaseRank& member, std::span<const Operation> operations,
                     std::initializer_list<std::string_view> words) {
  expect_error<MismatchError>([&] { member.group.launch(operations, member.stream).wait(); }, words);
  member.stream.reset_error();
}

}  // namespace

TEST_P(CommSuite, AnOperationOfAnotherGroupIsNamed) {
  on_ranks(3, [](CaseRank& member) {
    const int all[] = {0, 1, 2};
    const ProcessGroup first = member.group.subgroup(all, {.name = "first"});
    const ProcessGroup second = member.group.subgroup(all, {.name = "second"});
    const ProcessGroup& mine = member.rank() == 1 ? second : first;
    expect_error<MismatchError>([&] { mine.launch({.kind = OpKind::kBarrier}, member.stream).wait(); },
                                {"ranks 0 and 2 run barrier for group first, rank 1 barrier for group second"});
    member.stream.reset_error();
  });
}

TEST_P(CommSuite, AMessageOfAnotherGroupIsNamed) {
  if (!has_messages()) GTEST_SKIP() << "the backend has no send and recv";
  on_ranks(2, [](CaseRank& member) {
    const int all[] = {0, 1};
    const ProcessGroup first = member.group.subgroup(all, {.name = "first"});
    const ProcessGroup second = member.group.subgroup(all, {.name = "second"});
    const Ints room(member, Where::kDevice, 8);
    const ProcessGroup& mine = member.rank() == 1 ? second : first;
    const Operation op = member.rank() == 1 ? receive(room, 0) : send(room, 1);
    expect_error<MismatchError>([&] { mine.launch(op, member.stream).wait(); },
                                {"rank 0 sends i32[8] for group first"});
    member.stream.reset_error();
  });
}

// A rank that takes no part in a message has run fewer operations, which is not a mismatch.
TEST_P(CommSuite, MessagesBetweenSomeDoNotSetTheOthersBack) {
  if (!has_messages()) GTEST_SKIP() << "the backend has no send and recv";
  on_ranks(3, [](CaseRank& member) {
    Ints room(member, Where::kDevice, 100);
    const Ints sum(member, Where::kDevice, 1);
    for (int round = 0; round < 3; ++round) {
      if (member.rank() == 0) member.group.launch(send(room.number(5), 2), member.stream).wait();
      if (member.rank() == 2) member.group.launch(receive(room, 0), member.stream).wait();
      sum.data()[0] = 1;
      member.group.launch(all_reduce(sum, sum, 1), member.stream).wait();
      EXPECT_EQ(sum.data()[0], 3);
    }
    if (member.rank() == 2) room.expect_from(5, 0, 0, 100);
  });
}

TEST_P(CommSuite, CheckedALaunchOfWhichTheLastOperationDiffersMovesNothing) {
  const Checked checked;
  on_ranks(3, &Capabilities::has_checked_mode, [](CaseRank& member) {
    Ints in(member, Where::kDevice, 50'000);
    const Ints small(member, Where::kDevice, 10);
    const Ints large(member, Where::kDevice, 50'000);
    in.number(member.rank());
    const Operation batch[] = {all_reduce(in, small, 10), all_reduce(in, large, 50'000),
                               all_reduce(in, large, member.rank() == 2 ? 7 : 8)};
    expect_mismatch(member, batch,
                    {"operation 1", "ranks 0 and 1 run all_reduce(i32[8], sum), rank 2 all_reduce(i32[7], sum)"});
    small.expect_untouched(0, 10);
    large.expect_untouched(0, 50'000);
  });
}

TEST_P(CommSuite, CheckedPartsThatDoNotFitMoveNothingAnywhere) {
  const Checked checked;
  on_ranks(3, &Capabilities::has_checked_mode, [](CaseRank& member) {
    Ints in(member, Where::kDevice, 100);
    const Ints out(member, Where::kDevice, 100);
    in.number(member.rank());
    Operation op = all_reduce(in, out, 0);
    op.kind = OpKind::kAllToAll;
    op.in_counts = {2, 2, member.rank() == 0 ? 3 : 2};
    op.out_counts = {2, 2, 2};
    expect_mismatch(member, std::span(&op, 1), {"all_to_all", "rank 0 sends 3 elements, rank 2 expects 2"});
    out.expect_untouched(0, 100);
  });
}

TEST_P(CommSuite, CheckedRowsThatDoNotFitMoveNothingAnywhere) {
  const Checked checked;
  on_ranks(3, &Capabilities::has_checked_mode, [](CaseRank& member) {
    const Longs in_offsets(member, {0, 0, 0});
    const Longs in_sizes(member, {1, 1, member.rank() == 1 ? 2 : 1});
    const Longs out_offsets(member, {member.rank(), member.rank(), member.rank() == 1 ? 3 : member.rank()});
    const Ints in(member, Where::kDevice, 4);
    const Ints out(member, Where::kDevice, 4);
    Operation op = all_reduce(in, out, 1);
    op.kind = OpKind::kRaggedAllToAll;
    op.rows = {.in_offsets = in_offsets.data(), .in_sizes = in_sizes.data(), .out_offsets = out_offsets.data()};
    op.in_rows = 4;
    op.out_rows = 4;
    expect_mismatch(member, std::span(&op, 1), {"rank 1 sends 2 elements to offset 3 of 4"});
    out.expect_untouched(0, 4);
  });
}

TEST_P(CommSuite, CheckedMessagesAreComparedBeforeAnyMoves) {
  if (!has_messages()) GTEST_SKIP() << "the backend has no send and recv";
  const Checked checked;
  on_ranks(2, &Capabilities::has_checked_mode, [](CaseRank& member) {
    Ints first(member, Where::kDevice, 50'000);
    const Ints second(member, Where::kDevice, member.rank() == 0 ? 8 : 7);
    const bool sends = member.rank() == 0;
    if (sends) first.number(0);
    const Operation batch[] = {sends ? send(first, 1) : receive(first, 0),
                               sends ? send(second, 1) : receive(second, 0)};
    expect_mismatch(member, batch, {"recv(i32[7], from 0)", "rank 0 sends i32[8]"});
    if (!sends) first.expect_untouched(0, 50'000);
  });
}

TEST_P(CommSuite, CheckedOperationsThatAgreeRunAsEver) {
  const Checked checked;
  on_ranks(3, &Capabilities::has_checked_mode, [has_messages = has_messages()](CaseRank& member) {
    for (const std::int64_t count : {1, 50'000}) {
      Ints in(member, member.mixed(), count);
      const Ints out(member, member.mixed(), 3 * count);
      Ints mail(member, member.mixed(), count);
      in.number(member.rank());
      Operation gather = all_reduce(in, out, count);
      gather.kind = OpKind::kAllGather;
      std::vector<Operation> batch = {gather};
      if (has_messages && member.rank() == 0) batch.push_back(send(mail.number(7), 2));
      if (has_messages && member.rank() == 2) batch.push_back(receive(mail, 0));
      member.group.launch(batch, member.stream).wait();
      for (int peer = 0; peer < 3; ++peer) out.expect_from(peer, 0, peer * count, count);
      if (has_messages && member.rank() == 2) mail.expect_from(7, 0, 0, count);
    }
    EXPECT_EQ(member.group.sequence(), 2U) << "a check is no operation";
  });
}

}  // namespace tessera::comm::suite
