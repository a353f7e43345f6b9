// broadcast, reduce, scatter and gather as member functions: in place, rejected arguments, and ranks that differ, also
// in checked mode.
#include "tessera/comm/suite/comm_suite.h"

namespace tessera::comm::suite {
namespace {

void expect_mismatch(const CaseRank& member, const std::function<Work()>& call,
                     std::initializer_list<std::string_view> words) {
  expect_error<MismatchError>([&] { call().wait(); }, words);
  member.stream.reset_error();
}

// Rank 1 calls the function with a different argument. A group that has failed cannot continue, so each case has its
// own ranks.
void expect_other_root(const CaseRank& member) {
  const Ints x(member, Where::kDevice, 8);
  const int root = member.rank() == 1 ? 1 : 0;
  expect_mismatch(member,
                  [&] { return member.group.broadcast(x.data(), x.data(), 8, DType::kI32, root, member.stream); },
                  {"ranks 0 and 2 run broadcast(i32[8], root 0), rank 1 broadcast(i32[8], root 1)"});
  x.expect_untouched(0, 8);
}
void expect_other_reduction(const CaseRank& member) {
  const Ints x(member, Where::kDevice, 8);
  const ReduceOp reduction{member.rank() == 1 ? Reduction::kMax : Reduction::kSum};
  expect_mismatch(member,
                  [&] { return member.group.reduce(x.data(), x.data(), 8, DType::kI32, reduction, 0, member.stream); },
                  {"ranks 0 and 2 run reduce(i32[8], sum, root 0), rank 1 reduce(i32[8], max, root 0)"});
  x.expect_untouched(0, 8);
}
void expect_other_count(const CaseRank& member) {
  const Ints x(member, Where::kDevice, 24);
  const Ints y(member, Where::kDevice, 8);
  const std::int64_t count = member.rank() == 1 ? 7 : 8;
  expect_mismatch(member,
                  [&] { return member.group.scatter(x.data(), y.data(), count, DType::kI32, 0, member.stream); },
                  {"ranks 0 and 2 run scatter(i32[8], root 0), rank 1 scatter(i32[7], root 0)"});
  y.expect_untouched(0, 8);
}
void expect_other_counts(const CaseRank& member) {
  const Ints x(member, Where::kDevice, 8);
  const Ints y(member, Where::kDevice, 8);
  const std::int64_t counts[] = {1, 2, member.rank() == 1 ? 4 : 3};
  expect_mismatch(
      member, [&] { return member.group.gather(x.data(), y.data(), counts, DType::kI32, 0, member.stream); },
      {"ranks 0 and 2 run gather(i32[0], root 0, out=[1, 2, 3])", "rank 1 gather(i32[0], root 0, out=[1, 2, 4])"});
  y.expect_untouched(0, 8);
}
constexpr void (*kDifferences[])(const CaseRank&) = {expect_other_root, expect_other_reduction, expect_other_count,
                                                     expect_other_counts};

}  // namespace

TEST_P(CommSuite, BroadcastAndReduceInPlace) {
  on_ranks(3, [](CaseRank& member) {
    for (const Where where : {Where::kDevice, Where::kHeap}) {
      for (const std::int64_t count : {5, 20'000}) {
        Ints x(member, where, count);
        if (member.rank() == 2) x.number(2);
        member.group.broadcast(x.data(), x.data(), count, DType::kI32, 2, member.stream).wait();
        x.expect_from(2, 0, 0, count);
        std::fill_n(x.data(), count, 1 << member.rank());
        member.group.reduce(x.data(), x.data(), count, DType::kI32, {}, 1, member.stream).wait();
        const int expected = member.rank() == 1 ? 7 : 1 << member.rank();
        for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(x.data()[i], expected);
      }
    }
  });
}

TEST_P(CommSuite, ScatterAndGatherInPlace) {
  on_ranks(3, [](CaseRank& member) {
    const bool is_root = member.rank() == 1;
    for (const std::int64_t count : {5, 20'000}) {
      Ints x(member, Where::kDevice, 3 * count);
      std::int32_t* const own = is_root ? x.data() + count : x.data();
      if (is_root) x.number(4);
      member.group.scatter(x.data(), own, count, DType::kI32, 1, member.stream).wait();
      if (!is_root) x.expect_from(4, member.rank() * count, 0, count);
      if (is_root) std::fill_n(x.data(), count, -1);
      member.group.gather(own, x.data(), count, DType::kI32, 1, member.stream).wait();
      if (is_root) x.expect_from(4, 0, 0, 3 * count);
    }
  });
}

TEST_P(CommSuite, BuffersOfOtherRanksThanTheRootMayBeNull) {
  on_ranks(3, [](CaseRank& member) {
    const bool is_root = member.rank() == 0;
    Ints whole(member, Where::kDevice, 12);
    Ints part(member, Where::kDevice, 4);
    void* const at_root = is_root ? whole.data() : nullptr;
    if (is_root) whole.number(0);
    member.group.scatter(at_root, part.data(), 4, DType::kI32, 0, member.stream).wait();
    part.expect_from(0, 4 * member.rank(), 0, 4);
    member.group.gather(part.data(), at_root, 4, DType::kI32, 0, member.stream).wait();
    if (is_root) whole.expect_from(0, 0, 0, 12);
    member.group.reduce(part.data(), at_root, 4, DType::kI32, {}, 0, member.stream).wait();
    member.group.broadcast(at_root, part.data(), 4, DType::kI32, 0, member.stream).wait();
    EXPECT_EQ(part.data()[0], Ints::value(0, 0) + Ints::value(0, 4) + Ints::value(0, 8));
  });
}

TEST_P(CommSuite, RootedOperationsWithBadArgumentsAreRejectedAndChangeNothing) {
  on_ranks(2, [](CaseRank& member) {
    const Ints x(member, Where::kDevice, 8);
    const Ints y(member, Where::kDevice, 8);
    const ProcessGroup& group = member.group;
    const device::Stream& stream = member.stream;
    const auto rejects = [](const std::function<void()>& call, std::initializer_list<std::string_view> words) {
      expect_error<InvalidArgument>(call, words);
    };
    rejects([&] { (void)group.broadcast(x.data(), y.data(), 8, DType::kI32, 2, stream); },
            {"broadcast(i32[8], root 2)", "root must be in [0, 1], got 2"});
    rejects([&] { (void)group.reduce(x.data(), y.data(), 8, DType::kI32, {}, -1, stream); },
            {"reduce(i32[8], sum, root -1)", "root must be in [0, 1], got -1"});
    rejects([&] { (void)group.gather(x.data(), y.data(), 4, DType::kI32, 2, stream); }, {"root must be in [0, 1]"});
    rejects([&] { (void)group.scatter(x.data(), y.data(), 4, DType::kI32, 2, stream); }, {"root must be in [0, 1]"});
    rejects([&] { (void)group.broadcast(x.data(), nullptr, 8, DType::kI32, 0, stream); },
            {"output must be the address of"});
    rejects([&] { (void)group.reduce(nullptr, y.data(), 8, DType::kI32, {}, 0, stream); },
            {"input must be the address of"});
    rejects([&] { (void)group.broadcast(x.data(), y.data(), -1, DType::kI32, 0, stream); },
            {"count must be in [0, ", "got -1"});
    rejects([&] { (void)group.reduce(x.data(), y.data(), 8, DType::kBool, {}, 0, stream); },
            {"dtype must be one that sum is defined for, got bool"});
    const std::int64_t counts[] = {4, 4, 4};
    const std::int64_t negative[] = {4, -4};
    rejects([&] { (void)group.gather(x.data(), y.data(), counts, DType::kI32, 0, stream); },
            {"counts must have one entry per rank (2), got 3"});
    rejects([&] { (void)group.scatter(x.data(), y.data(), negative, DType::kI32, 0, stream); },
            {"counts must not be negative, got -4"});
    rejects([&] { (void)group.gather(x.data(), y.data(), std::vector<std::int64_t>(), DType::kI32, 0, stream); },
            {"gather: counts must have one entry per rank, got none"});
    rejects([&] { (void)group.broadcast(x.data(), x.data() + 1, 4, DType::kI32, member.rank(), stream); },
            {"must start 0 bytes after it, got 4 bytes"});
    group.barrier(stream).wait();
    EXPECT_EQ(group.sequence(), 1U);
    x.expect_untouched(0, 8);
    y.expect_untouched(0, 8);
  });
}

TEST_P(CommSuite, RootedOperationsThatDifferAreNamed) {
  for (const auto expect : kDifferences) on_ranks(3, expect);
}

TEST_P(CommSuite, CheckedRootedOperationsThatDifferAreNamed) {
  const Checked checked;
  for (const auto expect : kDifferences) on_ranks(3, &Capabilities::has_checked_mode, expect);
}

TEST_P(CommSuite, CheckedRootedOperationsThatAgreeRun) {
  const Checked checked;
  on_ranks(3, &Capabilities::has_checked_mode, [has_messages = has_messages()](CaseRank& member) {
    for (const std::int64_t count : {3, 20'000}) {
      Ints x(member, member.mixed(), count);
      const Ints all(member, member.mixed(), 3 * count);
      if (member.rank() == 1) x.number(1);
      member.group.broadcast(x.data(), x.data(), count, DType::kI32, 1, member.stream).wait();
      member.group.gather(x.data(), all.data(), count, DType::kI32, 0, member.stream).wait();
      member.group.scatter(all.data(), x.data(), count, DType::kI32, 0, member.stream).wait();
      x.expect_from(1, 0, 0, count);
      member.group.barrier(member.stream).wait();
      if (!has_messages) continue;
      if (member.rank() == 1) member.group.send(x.data(), count, DType::kI32, 2, member.stream).wait();
      if (member.rank() == 2) member.group.recv(all.data(), count, DType::kI32, 1, member.stream).wait();
      if (member.rank() == 2) all.expect_from(1, 0, 0, count);
    }
  });
}

}  // namespace tessera::comm::suite
