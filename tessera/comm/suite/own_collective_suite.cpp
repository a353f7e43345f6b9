// A collective that a program defines, on each backend that runs transfers: the example of docs/adding_a_collective.md.
#include <algorithm>

#include "tessera/base/probe/recorder.h"
#include "tessera/comm/collectives/arguments.h"
#include "tessera/comm/collectives/collective.h"
#include "tessera/comm/records.h"
#include "tessera/comm/suite/comm_suite.h"

namespace tessera::comm::suite {
namespace {

// neighbor_gather: the ranks form a ring, and each rank gets the inputs of the previous and of the next rank.
constexpr auto kNeighborGather = static_cast<OpKind>(kFirstCustomOpKind);

void check(const Operation& operation, int /*rank*/, int /*size*/) { check_count(operation); }

// Elements that a rank gives and gets.
Extents extents(const Operation& operation, int /*rank*/, int /*size*/) {
  return {.in = operation.count, .out = 2 * operation.count};
}

// Each rank makes the copies to its own output.
Transfers transfers(const Operation& operation, int rank, int size) {
  if (operation.count == 0) return {};
  const int previous = (rank + size - 1) % size;
  const int next = (rank + 1) % size;
  return {{.from = previous, .to = rank, .to_offset = 0, .count = operation.count},
          {.from = next, .to = rank, .to_offset = operation.count, .count = operation.count}};
}

const CollectiveRegistration kRegistered{
    {.kind = kNeighborGather, .name = "neighbor_gather", .check = check, .extents = extents, .transfers = transfers}};

Work neighbor_gather(const ProcessGroup& group, const void* in, void* out, std::int64_t count, DType dtype,
                     const device::Stream& stream) {
  return group.launch({.kind = kNeighborGather,
                       .dtype = dtype,
                       .in = static_cast<const std::byte*>(in),
                       .out = static_cast<std::byte*>(out),
                       .count = count},
                      stream);
}

}  // namespace

TEST_P(CommSuite, ACollectiveOfTheProgramRuns) {
  on_ranks(4, [](CaseRank& member) {
    for (const Where where : {Where::kDevice, Where::kHeap, member.mixed()}) {
      for (const std::int64_t count : {0, 1, 5, 4096, 50'001}) {
        Ints in(member, where, count);
        const Ints out(member, where, 2 * count);
        in.number(member.rank());
        neighbor_gather(member.group, in.data(), out.data(), count, DType::kI32, member.stream).wait();
        out.expect_from((member.rank() + 3) % 4, 0, 0, count);
        out.expect_from((member.rank() + 1) % 4, 0, count, count);
      }
    }
  });
}

TEST_P(CommSuite, ACollectiveOfTheProgramIsCheckedLikeAnyOther) {
  on_ranks(3, [](CaseRank& member) {
    const Ints x(member, Where::kDevice, 24);
    const std::int64_t count = member.rank() == 2 ? 7 : 8;
    const auto gather = [&](const void* in, std::int64_t of) {
      neighbor_gather(member.group, in, x.data() + 8, of, DType::kI32, member.stream).wait();
    };
    expect_error<InvalidArgument>([&] { gather(nullptr, 8); },
                                  {"neighbor_gather(i32[8])", "input must be the address of"});
    expect_error<InvalidArgument>([&] { gather(x.data(), -8); }, {"neighbor_gather(i32[-8])", "got -8"});
    expect_error<InvalidArgument>([&] { gather(x.data() + 4, 8); }, {"input and output must not overlap"});
    expect_error<MismatchError>([&] { gather(x.data(), count); },
                                {"ranks 0 and 1 run neighbor_gather(i32[8]), rank 2 neighbor_gather(i32[7])"});
    member.stream.reset_error();
    x.expect_untouched(0, 24);
  });
}

TEST_P(CommSuite, ACollectiveOfTheProgramIsNamedInTheRecord) {
  on_ranks(2, [](CaseRank& member) {
    const Ints in(member, Where::kDevice, 8);
    const Ints out(member, Where::kDevice, 16);
    neighbor_gather(member.group, in.data(), out.data(), 8, DType::kI32, member.stream).wait();
    const probe::RecordFile file = probe::RecordFile::open(probe::recorder().path());
    const probe::TableInfo* table = file.find_table(CollectiveRow::kRecordName);
    ASSERT_NE(table, nullptr);
    ASSERT_EQ(table->claimed.size(), 1U) << "once per rank";
    EXPECT_EQ(probe::to_string(table->claimed[0].find("name")->value), "neighbor_gather");
    const auto lines = text_of_groups(file);
    EXPECT_TRUE(std::ranges::any_of(lines, [](const std::string& line) {
      return line.find("ran #1 neighbor_gather(i32[8]) (collective 1)") != std::string::npos;
    })) << lines.at(0);
  });
}

}  // namespace tessera::comm::suite
