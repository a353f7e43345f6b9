// The transfers of each collective, run on arrays in random order, against a simple reference; also in place.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/collectives/collective.h"

namespace tessera::comm {
namespace {

using Values = std::vector<std::int64_t>;
using Random = std::mt19937_64;

// A world of arrays: `in`, `out` and the operation of each rank.
struct World {
  std::vector<Operation> operations;
  std::vector<Values> in;
  std::vector<Values> out;
  [[nodiscard]] int size() const { return static_cast<int>(operations.size()); }
};

// Makes the transfers of all ranks in random order, each reading and writing immediately.
void play(World& world, Random& random) {
  struct Made {
    int maker;
    Transfer transfer;
  };
  std::vector<Made> all;
  const CollectiveDef& def = definition(world.operations[0].kind);
  for (int rank = 0; rank < world.size(); ++rank) {
    for (const Transfer& transfer :
         def.transfers(world.operations[static_cast<std::size_t>(rank)], rank, world.size())) {
      all.push_back({rank, transfer});
    }
  }
  std::shuffle(all.begin(), all.end(), random);
  for (auto [maker, transfer] : all) {
    if (transfer.from_offset == kOffered) {
      const Offer offer = def.offer(world.operations[static_cast<std::size_t>(transfer.from)], transfer.from, maker);
      transfer.from_offset = offer.from_offset;
      if (transfer.count == kOffered) transfer.count = offer.count;
      if (transfer.to_offset == kOffered) transfer.to_offset = offer.to_offset;
      ASSERT_EQ(transfer.count, offer.count);
    }
    for (std::int64_t i = 0; i < transfer.count; ++i) {
      std::int64_t value = 0;
      for (int from = 0; from < world.size(); ++from) {
        if (transfer.from != kEveryone && transfer.from != from) continue;
        value += world.in[static_cast<std::size_t>(from)].at(static_cast<std::size_t>(transfer.from_offset + i));
      }
      for (int to = 0; to < world.size(); ++to) {
        if (transfer.to != kEveryone && transfer.to != to) continue;
        world.out[static_cast<std::size_t>(to)].at(static_cast<std::size_t>(transfer.to_offset + i)) = value;
      }
    }
  }
}

Values fresh(Random& random, std::int64_t count) {
  Values values(static_cast<std::size_t>(count));
  for (std::int64_t& value : values) value = static_cast<std::int64_t>(random() % 1000);
  return values;
}

World make(OpKind kind, int size, Random& random) {
  World world;
  Operation operation{.kind = kind, .dtype = DType::kI64, .root = static_cast<int>(random() % size)};
  operation.count = static_cast<std::int64_t>(random() % 7);
  const bool is_uneven = random() % 2 == 0;
  SmallVector<std::int64_t, 8> counts;
  for (int i = 0; i < size; ++i) counts.push_back(static_cast<std::int64_t>(random() % 5));
  if (is_uneven && (kind == OpKind::kAllGather || kind == OpKind::kGather)) operation.out_counts = counts;
  if (is_uneven && (kind == OpKind::kReduceScatter || kind == OpKind::kScatter)) operation.in_counts = counts;
  if (kind == OpKind::kPermute) {
    std::vector<int> order(static_cast<std::size_t>(size));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (const int to : order) operation.targets.push_back(random() % 4 == 0 ? -1 : to);
  }
  for (int rank = 0; rank < size; ++rank) {
    world.operations.push_back(operation);
    const Extents extents = definition(kind).extents(operation, rank, size);
    world.in.push_back(fresh(random, extents.in));
    world.out.emplace_back(static_cast<std::size_t>(extents.out), -7);
  }
  return world;
}

Values part(const Values& values, std::span<const std::int64_t> counts, std::int64_t count, int rank) {
  std::int64_t first = 0;
  for (int i = 0; i < rank; ++i) first += counts.empty() ? count : counts[static_cast<std::size_t>(i)];
  const std::int64_t length = counts.empty() ? count : counts[static_cast<std::size_t>(rank)];
  return {values.begin() + first, values.begin() + first + length};
}
Values sum_of(const std::vector<Values>& inputs) {
  Values sum(inputs[0].size());
  for (const Values& input : inputs) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += input[i];
  }
  return sum;
}
Values joined(const std::vector<Values>& inputs) {
  Values all;
  for (const Values& input : inputs) all.insert(all.end(), input.begin(), input.end());
  return all;
}

// Returns the expected output of `rank`.
Values expected(const World& world, int rank) {
  const Operation& operation = world.operations[static_cast<std::size_t>(rank)];
  const auto root = static_cast<std::size_t>(operation.root);
  const bool is_root = rank == operation.root;
  switch (operation.kind) {
    case OpKind::kAllReduce: return sum_of(world.in);
    case OpKind::kAllGather:
    case OpKind::kRendezvous: return joined(world.in);
    case OpKind::kReduceScatter: return part(sum_of(world.in), operation.in_counts, operation.count, rank);
    case OpKind::kBroadcast: return world.in[root];
    case OpKind::kReduce: return is_root ? sum_of(world.in) : Values();
    case OpKind::kScatter: return part(world.in[root], operation.in_counts, operation.count, rank);
    case OpKind::kGather: return is_root ? joined(world.in) : Values();
    case OpKind::kPermute: {
      for (std::size_t from = 0; from < operation.targets.size(); ++from) {
        if (operation.targets[from] == rank) return world.in[from];
      }
      return {};
    }
    default: return {};
  }
}

TEST(Transfers, GiveWhatTheCollectiveIsDefinedToGive) {
  Random random(1);
  for (const OpKind kind :
       {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kBroadcast, OpKind::kReduce,
        OpKind::kScatter, OpKind::kGather, OpKind::kBarrier, OpKind::kPermute, OpKind::kRendezvous}) {
    for (int trial = 0; trial < 200; ++trial) {
      const int size = 1 + static_cast<int>(random() % 6);
      World world = make(kind, size, random);
      SCOPED_TRACE(text_of(world.operations[0]) + " on " + std::to_string(size));
      const World before = world;
      play(world, random);
      for (int rank = 0; rank < size; ++rank) {
        ASSERT_EQ(world.out[static_cast<std::size_t>(rank)], expected(before, rank)) << "rank " << rank;
      }
    }
  }
}

TEST(Transfers, OfAllToAllTakeFromEachPeerWhatItOffers) {
  Random random(2);
  for (int trial = 0; trial < 300; ++trial) {
    const int size = 1 + static_cast<int>(random() % 6);
    const bool is_even = trial % 3 == 0;
    const auto n = static_cast<std::size_t>(size);
    std::vector<Values> counts(n, Values(n, 3));  // [from][to]
    if (!is_even) std::ranges::for_each(counts, [&](Values& row) { row = fresh(random, size); });
    for (Values& row : counts) std::ranges::for_each(row, [](std::int64_t& count) { count %= 4; });
    World world;
    std::vector<Values> want(n);
    for (std::size_t rank = 0; rank < n; ++rank) {
      Operation operation{.kind = OpKind::kAllToAll, .dtype = DType::kI64, .count = 3};
      std::int64_t ins = 0;
      std::int64_t outs = 0;
      for (std::size_t peer = 0; peer < n; ++peer) {
        ins += counts[rank][peer];
        outs += counts[peer][rank];
        if (is_even) continue;
        operation.in_counts.push_back(counts[rank][peer]);
        operation.out_counts.push_back(counts[peer][rank]);
      }
      world.operations.push_back(operation);
      world.in.push_back(fresh(random, ins));
      world.out.emplace_back(static_cast<std::size_t>(outs), -7);
    }
    for (std::size_t from = 0; from < n; ++from) {
      for (std::size_t to = 0; to < n; ++to) {
        const Values piece = part(world.in[from], counts[from], 0, static_cast<int>(to));
        want[to].insert(want[to].end(), piece.begin(), piece.end());
      }
    }
    play(world, random);
    for (std::size_t rank = 0; rank < n; ++rank) ASSERT_EQ(world.out[rank], want[rank]);
  }
}

// Offsets are in the receiver's rows; rows that no rank names keep their values.
TEST(Transfers, OfRaggedAllToAllWriteWhereTheSenderSays) {
  const Values in_offsets[] = {{0, 1}, {0, 1}};
  const Values in_sizes[] = {{1, 2}, {1, 1}};
  const Values out_offsets[] = {{0, 0}, {1, 2}};
  World world;
  world.in = {{1, 2, 2}, {3, 4, 0}};
  world.out = {{0, 0, 0, 0}, {0, 0, 0, 0}};
  for (std::size_t rank = 0; rank < 2; ++rank) {
    Operation operation{.kind = OpKind::kRaggedAllToAll, .dtype = DType::kI64, .count = 1};
    operation.rows = {in_offsets[rank].data(), in_sizes[rank].data(), out_offsets[rank].data(), nullptr};
    operation.in_rows = 3;
    operation.out_rows = 4;
    world.operations.push_back(operation);
  }
  Random random(3);
  play(world, random);
  EXPECT_EQ(world.out[0], (Values{1, 3, 0, 0}));
  EXPECT_EQ(world.out[1], (Values{2, 2, 4, 0}));
}

// In place: the output is in the memory of the input at the offset of in_place(), or the other way round.
TEST(Transfers, ReadNothingThatAnotherWritesInPlace) {
  Random random(4);
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kBroadcast,
                            OpKind::kReduce, OpKind::kScatter, OpKind::kGather}) {
    for (int trial = 0; trial < 200; ++trial) {
      const int size = 1 + static_cast<int>(random() % 5);
      World world = make(kind, size, random);
      const World before = world;
      // The writer of each (rank, element of its memory), relative to its input.
      std::map<std::pair<int, std::int64_t>, int> writer;
      const CollectiveDef& def = definition(kind);
      const auto place = [&](int rank) { return *def.in_place(world.operations[0], rank, size); };
      int number = 0;
      for (int maker = 0; maker < size; ++maker) {
        for (const Transfer& transfer : def.transfers(world.operations[0], maker, size)) {
          ++number;
          for (int to = 0; to < size; ++to) {
            if (transfer.to != kEveryone && transfer.to != to) continue;
            if (transfer.from == to && place(to) + transfer.to_offset == transfer.from_offset)
              continue;  // onto itself: skipped
            for (std::int64_t i = 0; i < transfer.count; ++i) writer[{to, place(to) + transfer.to_offset + i}] = number;
          }
        }
      }
      number = 0;
      for (int maker = 0; maker < size; ++maker) {
        for (const Transfer& transfer : def.transfers(world.operations[0], maker, size)) {
          ++number;
          for (int from = 0; from < size; ++from) {
            if (transfer.from != kEveryone && transfer.from != from) continue;
            for (std::int64_t i = 0; i < transfer.count; ++i) {
              const auto at = writer.find({from, transfer.from_offset + i});
              ASSERT_TRUE(at == writer.end() || at->second == number) << text_of(world.operations[0]);
            }
          }
        }
      }
    }
  }
}

// The properties that backends rely on, for random operations of each kind.
TEST(Definitions, StateTheSizesAndReductionsOfTheirTransfers) {
  Random random(5);
  for (const CollectiveDef& def : all_collectives()) {
    if (def.offer != nullptr || static_cast<int>(def.kind) >= kFirstCustomOpKind) continue;
    for (int trial = 0; trial < 200; ++trial) {
      const int size = 1 + static_cast<int>(random() % 6);
      const World world = make(def.kind, size, random);
      const Operation& operation = world.operations[0];
      SCOPED_TRACE(text_of(operation) + " on " + std::to_string(size));
      std::int64_t most = 0;
      for (int rank = 0; rank < size; ++rank) {
        const Extents extents = def.extents(operation, rank, size);
        most = std::max(most, extents.in);
        for (const Transfer& transfer : def.transfers(operation, rank, size)) {
          EXPECT_TRUE(transfer.from != kEveryone || def.reduces);
        }
      }
      // A barrier has no elements, and a permute may have no sender.
      if (def.kind != OpKind::kBarrier && most > 0) {
        EXPECT_EQ(max_input_of(operation, size), most);
      }
    }
  }
}

TEST(Definitions, AreFoundByKindAndNamed) {
  for (const CollectiveDef& def : all_collectives()) {
    EXPECT_EQ(find_definition(def.kind)->name, def.name);
    EXPECT_EQ(to_string(def.kind), def.name);
    EXPECT_EQ(has_root(def.kind), def.has_root);
    EXPECT_EQ(reduces(def.kind), def.reduces);
  }
  EXPECT_EQ(to_string(OpKind::kSend), "send");
  EXPECT_EQ(find_definition(OpKind::kSend), nullptr);
  const auto unknown = static_cast<OpKind>(kMaxOpKinds - 1);
  EXPECT_EQ(find_definition(unknown), nullptr);
  EXPECT_EQ(find_definition(static_cast<OpKind>(200)), nullptr);
  EXPECT_EQ(to_string(unknown), "no operation");
  expect_error<InvalidArgument>([&] { (void)definition(unknown); },
                                {"kind must be registered, got 31", "CollectiveRegistration"});
  expect_error<InvalidArgument>([&] { (void)definition(OpKind::kRecv); }, {"kind must be a collective, got recv"});
}

CollectiveDef copy_of_barrier(int kind, std::string_view name) {
  CollectiveDef def = definition(OpKind::kBarrier);
  def.kind = static_cast<OpKind>(kind);
  def.name = name;
  return def;
}

TEST(DefinitionsDeathTest, ThatCannotBeRegisteredEndTheProcess) {
  EXPECT_DEATH(CollectiveRegistration{copy_of_barrier(30, "barrier")},
               "'barrier' of kind 30 is registered already, as 'barrier' of kind 9");
  EXPECT_DEATH(CollectiveRegistration{copy_of_barrier(0, "other")},
               "'other' of kind 0 is registered already, as 'all_reduce' of kind 0");
  EXPECT_DEATH(CollectiveRegistration{copy_of_barrier(32, "other")}, "kind must be in .0, 32. and not .* got 32");
  EXPECT_DEATH(CollectiveRegistration{copy_of_barrier(10, "other")}, "not that of send or recv, got 10");
  EXPECT_DEATH(CollectiveRegistration{copy_of_barrier(30, "")}, "must have a name, check, extents and transfers");
  CollectiveDef incomplete = copy_of_barrier(30, "other");
  incomplete.transfers = nullptr;
  EXPECT_DEATH(CollectiveRegistration{incomplete}, "must have a name, check, extents and transfers");
}

TEST(Arguments, ThatMakeNoSenseAreNamed) {
  std::byte memory[64] = {};
  const auto refuse = [&](const Operation& operation, std::initializer_list<std::string_view> words) {
    expect_error<InvalidArgument>([&] { check_arguments(operation, 0, 2); }, words);
  };
  Operation op{.kind = OpKind::kAllReduce, .dtype = DType::kF32, .in = memory, .out = memory, .count = 4};
  check_arguments(op, 0, 2);
  op.out = memory + 4;
  refuse(op, {"all_reduce(f32[4], sum)", "an output that overlaps the input must start 0 bytes after it, got 4 bytes"});
  op.out = nullptr;
  refuse(op, {"output must be the address of"});
  op.count = -1;
  refuse(op, {"count must be in [0, ", "got -1"});
  op = {.kind = OpKind::kAllReduce, .dtype = DType::kBool, .in = memory, .out = memory, .count = 4};
  refuse(op, {"dtype must be one that sum is defined for, got bool", "max"});
  op = {.kind = OpKind::kBroadcast, .dtype = DType::kF32, .root = 2, .in = memory, .out = memory, .count = 4};
  refuse(op, {"root must be in [0, 1], got 2"});
  op = {.kind = OpKind::kAllToAll, .dtype = DType::kF32, .in = memory, .out = memory, .count = 4};
  refuse(op, {"all_to_all", "input and output must not overlap"});
  op.in_counts = {1};
  refuse(op, {"in_counts must have one entry per rank (2), got 1"});
  op.in_counts = {1, -2};
  refuse(op, {"in_counts must not be negative, got -2"});
  op = {.kind = OpKind::kPermute, .dtype = DType::kF32, .in = memory, .out = memory + 32, .count = 4};
  op.targets = {1, 1};
  refuse(op, {"ranks 0 and 1 both send to 1"});
}

}  // namespace
}  // namespace tessera::comm
