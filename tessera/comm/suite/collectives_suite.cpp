// Results of each collective, for sizes around each threshold of its implementations, in memory that peers can and
// cannot access.
#include <algorithm>

#include "tessera/comm/suite/comm_suite.h"

namespace tessera::comm::suite {
namespace {

// In elements of 4 bytes: none, few, around 2 KiB, 16 KiB and 64 KiB, several windows, odd sizes.
constexpr std::int64_t kCounts[] = {0, 1, 5, 512, 513, 4095, 4096, 4097, 16383, 16384, 16385, 50'001};
constexpr Where kBoth[] = {Where::kDevice, Where::kHeap};

Operation ints(OpKind kind, const Ints& in, const Ints& out, std::int64_t count) {
  return {.kind = kind, .dtype = DType::kI32, .in = in.bytes(), .out = out.bytes(), .count = count};
}

SmallVector<std::int64_t, 8> uneven(int size, std::int64_t unit) {
  SmallVector<std::int64_t, 8> counts;
  for (int rank = 0; rank < size; ++rank) counts.push_back(rank == 1 ? 0 : (rank + 1) * unit + rank);
  return counts;
}
std::int64_t before(const SmallVector<std::int64_t, 8>& counts, int rank) {
  std::int64_t sum = 0;
  for (int i = 0; i < rank; ++i) sum += counts[static_cast<std::size_t>(i)];
  return sum;
}

void all_reduce_case(const CaseRank& member, Where where, std::int64_t count, bool is_in_place) {
  const std::size_t nbytes = static_cast<std::size_t>(count) * 4;
  const Room in(member, where, nbytes);
  const Room out(member, where, nbytes);
  fill_random(DType::kF32, member.rank(), count, in.data());
  std::byte* to = is_in_place ? in.data() : out.data();
  member.group.all_reduce(in.data(), to, count, DType::kF32, {}, member.stream).wait();
  EXPECT_EQ((is_in_place ? in : out).bytes(), folded(DType::kF32, {}, member.size(), count)) << count << " elements";
}

}  // namespace

TEST_P(CommSuite, AllReduceInMemoryThatPeersReach) {
  on_ranks(3, [](CaseRank& member) {
    for (const std::int64_t count : kCounts) all_reduce_case(member, Where::kDevice, count, false);
  });
}

TEST_P(CommSuite, AllReduceInMemoryThatPeersDoNotReach) {
  on_ranks(3, [](CaseRank& member) {
    for (const std::int64_t count : kCounts) all_reduce_case(member, Where::kHeap, count, false);
  });
}

TEST_P(CommSuite, AllReduceWhereSomeReachAndSomeDoNot) {
  on_ranks(4, [](CaseRank& member) {
    for (const std::int64_t count : kCounts) all_reduce_case(member, member.mixed(), count, false);
  });
}

TEST_P(CommSuite, AllReduceInPlace) {
  on_ranks(3, [](CaseRank& member) {
    for (const Where where : kBoth) {
      for (const std::int64_t count : kCounts) all_reduce_case(member, where, count, true);
    }
  });
}

TEST_P(CommSuite, AllReduceOfTwoAndOfOneRank) {
  for (const int ranks : {1, 2}) {
    on_ranks(ranks, [](CaseRank& member) {
      for (const Where where : kBoth) all_reduce_case(member, where, 20'000, false);
    });
  }
}

TEST_P(CommSuite, AllReduceOfManyRanks) {
  on_ranks(9, [](CaseRank& member) {
    for (const std::int64_t count : {1, 7, 20'000}) all_reduce_case(member, Where::kDevice, count, false);
  });
}

TEST_P(CommSuite, AllReduceOfMegabytes) {
  on_ranks(2, [](CaseRank& member) { all_reduce_case(member, Where::kDevice, 3'000'017, true); });
}

TEST_P(CommSuite, AllReduceOfEveryDTypeAndReduction) {
  on_ranks(3, [](CaseRank& member) {
    for (const DType dtype : kAllDTypes) {
      for (int k = 0; k <= static_cast<int>(Reduction::kPremultiply); ++k) {
        const ReduceOp reduction{static_cast<Reduction>(k), 0.3};
        if (!can_reduce(dtype, reduction.kind)) continue;
        for (const std::int64_t count : {37, 9000}) {
          const Room in(member, Where::kDevice, static_cast<std::size_t>(count) * itemsize(dtype));
          fill_random(dtype, member.rank(), count, in.data());
          member.group.all_reduce(in.data(), in.data(), count, dtype, reduction, member.stream).wait();
          EXPECT_EQ(in.bytes(), folded(dtype, reduction, 3, count))
              << to_string(dtype) << " " << to_string(reduction.kind) << " " << count;
        }
      }
    }
  });
}

TEST_P(CommSuite, AllGatherPutsPartsInRankOrder) {
  on_ranks(3, [](CaseRank& member) {
    for (const Where where : {Where::kDevice, Where::kHeap, member.mixed()}) {
      for (const std::int64_t count : kCounts) {
        Ints in(member, where, count);
        const Ints out(member, where, 3 * count);
        in.number(member.rank());
        member.group.all_gather(in.data(), out.data(), count, DType::kI32, member.stream).wait();
        for (int peer = 0; peer < 3; ++peer) out.expect_from(peer, 0, peer * count, count);
      }
    }
  });
}

TEST_P(CommSuite, AllGatherInPlace) {
  on_ranks(3, [](CaseRank& member) {
    for (const Where where : kBoth) {
      for (const std::int64_t count : kCounts) {
        const Ints out(member, where, 3 * count);
        std::int32_t* const own = out.data() + member.rank() * count;
        for (std::int64_t i = 0; i < count; ++i) own[i] = Ints::value(member.rank(), i);
        member.group.all_gather(own, out.data(), count, DType::kI32, member.stream).wait();
        for (int peer = 0; peer < 3; ++peer) out.expect_from(peer, 0, peer * count, count);
      }
    }
  });
}

TEST_P(CommSuite, AllGatherOfUnevenParts) {
  on_ranks(4, [](CaseRank& member) {
    for (const Where where : kBoth) {
      for (const std::int64_t unit : {0, 3, 5000, 20'000}) {
        const auto counts = uneven(4, unit);
        Ints in(member, where, counts[static_cast<std::size_t>(member.rank())]);
        const Ints out(member, where, before(counts, 4));
        in.number(member.rank());
        member.group.all_gather(in.data(), out.data(), counts, DType::kI32, member.stream).wait();
        for (int peer = 0; peer < 4; ++peer) {
          out.expect_from(peer, 0, before(counts, peer), counts[static_cast<std::size_t>(peer)]);
        }
      }
    }
  });
}

namespace {

void reduce_scatter_case(const CaseRank& member, Where where, const SmallVector<std::int64_t, 8>& counts,
                         bool is_even) {
  const std::int64_t whole = before(counts, member.size());
  const std::int64_t own = counts[static_cast<std::size_t>(member.rank())];
  const Room in(member, where, static_cast<std::size_t>(whole) * 4);
  const Room out(member, where, static_cast<std::size_t>(own) * 4);
  fill_random(DType::kF32, member.rank(), whole, in.data());
  if (is_even) {
    member.group.reduce_scatter(in.data(), out.data(), own, DType::kF32, {Reduction::kAvg}, member.stream).wait();
  } else {
    member.group.reduce_scatter(in.data(), out.data(), counts, DType::kF32, {Reduction::kAvg}, member.stream).wait();
  }
  const std::vector<std::byte> all = folded(DType::kF32, {Reduction::kAvg}, member.size(), whole);
  const auto first = all.begin() + before(counts, member.rank()) * 4;
  EXPECT_EQ(out.bytes(), std::vector<std::byte>(first, first + own * 4)) << whole << " elements in all";
}

}  // namespace

TEST_P(CommSuite, ReduceScatterGivesEachItsPart) {
  on_ranks(3, [](CaseRank& member) {
    for (const Where where : {Where::kDevice, Where::kHeap, member.mixed()}) {
      for (const std::int64_t count : kCounts) reduce_scatter_case(member, where, {count, count, count}, true);
    }
  });
}

TEST_P(CommSuite, ReduceScatterOfUnevenParts) {
  on_ranks(4, [](CaseRank& member) {
    for (const Where where : kBoth) {
      for (const std::int64_t unit : {0, 3, 5000, 20'000}) {
        reduce_scatter_case(member, where, uneven(4, unit), false);
      }
    }
  });
}

TEST_P(CommSuite, AllToAllExchangesParts) {
  on_ranks(3, [](CaseRank& member) {
    for (const Where where : {Where::kDevice, Where::kHeap, member.mixed()}) {
      for (const std::int64_t count : kCounts) {
        Ints in(member, where, 3 * count);
        const Ints out(member, where, 3 * count);
        in.number(member.rank());
        member.group.all_to_all(in.data(), out.data(), count, DType::kI32, member.stream).wait();
        for (int peer = 0; peer < 3; ++peer) out.expect_from(peer, member.rank() * count, peer * count, count);
      }
    }
  });
}

TEST_P(CommSuite, AllToAllOfUnevenParts) {
  on_ranks(3, [](CaseRank& member) {
    for (const Where where : kBoth) {
      for (const std::int64_t unit : {1, 3000, 9000}) {
        // Rank r sends (r + p) % 3 units to p.
        const auto given = [&](int from, int to) { return (from + to) % 3 * unit; };
        SmallVector<std::int64_t, 8> in_counts;
        SmallVector<std::int64_t, 8> out_counts;
        for (int peer = 0; peer < 3; ++peer) {
          in_counts.push_back(given(member.rank(), peer));
          out_counts.push_back(given(peer, member.rank()));
        }
        Ints in(member, where, before(in_counts, 3));
        const Ints out(member, where, before(out_counts, 3));
        in.number(member.rank());
        member.group.all_to_all(in.data(), in_counts, out.data(), out_counts, DType::kI32, member.stream).wait();
        for (int peer = 0; peer < 3; ++peer) {
          std::int64_t from = 0;
          for (int p = 0; p < member.rank(); ++p) from += given(peer, p);
          out.expect_from(peer, from, before(out_counts, peer), given(peer, member.rank()));
        }
      }
    }
  });
}

TEST_P(CommSuite, RaggedAllToAllPutsRowsWhereTheSenderSays) {
  on_ranks(3, [](CaseRank& member) {
    for (const Where where : kBoth) {
      for (const std::int64_t width : {1, 100, 3000}) {
        // Rank r sends r + 1 rows to each, from row 2p on, to row 4r: the last rows keep their values.
        const int me = member.rank();
        const Longs in_offsets(member, {0, 2, 4});
        const Longs in_sizes(member, {me + 1, me + 1, me + 1});
        const Longs out_offsets(member, {4 * me, 4 * me, 4 * me});
        Ints in(member, where, 8 * width);
        const Ints out(member, where, 12 * width);
        in.number(me);
        Operation op = ints(OpKind::kRaggedAllToAll, in, out, width);
        op.rows = {.in_offsets = in_offsets.data(), .in_sizes = in_sizes.data(), .out_offsets = out_offsets.data()};
        op.in_rows = 8;
        op.out_rows = 12;
        member.group.launch(op, member.stream).wait();
        for (int peer = 0; peer < 3; ++peer) {
          out.expect_from(peer, 2 * me * width, 4 * peer * width, (peer + 1) * width);
          out.expect_untouched((4 * peer + peer + 1) * width, (4 - peer - 1) * width);
        }
      }
    }
  });
}

TEST_P(CommSuite, RowsThatDoNotFitAreNamed) {
  on_ranks(2, [](CaseRank& member) {
    const Longs in_offsets(member, {0, 0});
    const Longs in_sizes(member, {1, 2});
    const Longs out_offsets(member, {0, 3});
    const Ints in(member, Where::kDevice, 4);
    const Ints out(member, Where::kDevice, 4);
    Operation op = ints(OpKind::kRaggedAllToAll, in, out, 1);
    op.rows = {.in_offsets = in_offsets.data(), .in_sizes = in_sizes.data(), .out_offsets = out_offsets.data()};
    op.in_rows = 4;
    op.out_rows = 4;
    expect_error<MismatchError>([&] { member.group.launch(op, member.stream).wait(); },
                                {"sends 2 elements to offset 3 of 4"});
    member.stream.reset_error();
    out.expect_untouched(3, 1);
  });
}

TEST_P(CommSuite, BroadcastFromEveryRoot) {
  on_ranks(3, [](CaseRank& member) {
    for (const Where where : {Where::kDevice, Where::kHeap, member.mixed()}) {
      for (const std::int64_t count : kCounts) {
        for (int root = 0; root < 3; ++root) {
          Ints in(member, where, member.rank() == root ? count : 0);
          const Ints out(member, where, count);
          in.number(root);
          member.group.broadcast(in.data(), out.data(), count, DType::kI32, root, member.stream).wait();
          out.expect_from(root, 0, 0, count);
        }
      }
    }
  });
}

TEST_P(CommSuite, ReduceToEveryRoot) {
  on_ranks(3, [](CaseRank& member) {
    for (const Where where : kBoth) {
      for (const std::int64_t count : kCounts) {
        for (int root = 0; root < 3; ++root) {
          const std::size_t nbytes = static_cast<std::size_t>(count) * 4;
          const Room in(member, where, nbytes);
          const Room out(member, where, member.rank() == root ? nbytes : 0);
          fill_random(DType::kF32, member.rank(), count, in.data());
          member.group.reduce(in.data(), out.data(), count, DType::kF32, {Reduction::kProd}, root, member.stream)
              .wait();
          if (member.rank() == root) {
            EXPECT_EQ(out.bytes(), folded(DType::kF32, {Reduction::kProd}, 3, count));
          }
        }
      }
    }
  });
}

TEST_P(CommSuite, ScatterAndGatherEvenly) {
  on_ranks(3, [](CaseRank& member) {
    for (const Where where : kBoth) {
      for (const std::int64_t count : kCounts) {
        const bool is_root = member.rank() == 1;
        Ints whole(member, where, is_root ? 3 * count : 0);
        const Ints part(member, where, count);
        whole.number(7);
        member.group.scatter(whole.data(), part.data(), count, DType::kI32, 1, member.stream).wait();
        part.expect_from(7, member.rank() * count, 0, count);
        const Ints again(member, where, is_root ? 3 * count : 0);
        member.group.gather(part.data(), again.data(), count, DType::kI32, 1, member.stream).wait();
        if (is_root) again.expect_from(7, 0, 0, 3 * count);
      }
    }
  });
}

TEST_P(CommSuite, ScatterAndGatherOfUnevenParts) {
  on_ranks(3, [](CaseRank& member) {
    for (const Where where : kBoth) {
      for (const std::int64_t unit : {1, 4000, 17'000}) {
        const auto counts = uneven(3, unit);
        const bool is_root = member.rank() == 2;
        Ints whole(member, where, is_root ? before(counts, 3) : 0);
        const Ints part(member, where, counts[static_cast<std::size_t>(member.rank())]);
        whole.number(7);
        member.group.scatter(whole.data(), part.data(), counts, DType::kI32, 2, member.stream).wait();
        part.expect_from(7, before(counts, member.rank()), 0, part.count());
        const Ints again(member, where, is_root ? before(counts, 3) : 0);
        member.group.gather(part.data(), again.data(), counts, DType::kI32, 2, member.stream).wait();
        if (is_root) again.expect_from(7, 0, 0, again.count());
      }
    }
  });
}

TEST_P(CommSuite, PermuteSendsToItsTargets) {
  on_ranks(4, [](CaseRank& member) {
    for (const Where where : {Where::kDevice, Where::kHeap, member.mixed()}) {
      for (const std::int64_t count : kCounts) {
        for (const SmallVector<int, 8>& targets : {SmallVector<int, 8>{1, 2, 3, 0}, {0, 1, 2, 3}, {-1, 3, 0, -1}}) {
          Ints in(member, where, count);
          const Ints out(member, where, count);
          in.number(member.rank());
          Operation op = ints(OpKind::kPermute, in, out, count);
          op.targets = targets;
          member.group.launch(op, member.stream).wait();
          const auto* source = std::find(targets.begin(), targets.end(), member.rank());
          if (source == targets.end()) {
            out.expect_untouched(0, count);
          } else {
            out.expect_from(static_cast<int>(source - targets.begin()), 0, 0, count);
          }
        }
      }
    }
  });
}

TEST_P(CommSuite, NobodyPassesABarrierBeforeAllHaveCome) {
  on_ranks(4, [](CaseRank& member) {
    for (int round = 0; round < 20; ++round) {
      const std::string key = "came " + std::to_string(round);
      store()->add(key, 1);
      member.group.barrier(member.stream).wait();
      EXPECT_EQ(store()->add(key, 0), 4);
      member.group.barrier(member.stream).wait();
    }
  });
}

TEST_P(CommSuite, OneLaunchOfManyOperationsCountsOnce) {
  on_ranks(2, [](CaseRank& member) {
    std::vector<std::unique_ptr<Ints>> rooms;
    std::vector<Operation> operations;
    for (int i = 0; i < 40; ++i) {
      const std::int64_t count = i * 211;
      rooms.push_back(std::make_unique<Ints>(member, i % 3 == 0 ? Where::kHeap : Where::kDevice, count));
      const Ints& room = *rooms.back();
      std::fill_n(room.data(), count, member.rank() + i);
      operations.push_back(ints(OpKind::kAllReduce, room, room, count));
    }
    const Work work = member.group.launch(operations, member.stream);
    work.wait();
    EXPECT_EQ(work.sequence(), 1U);
    EXPECT_EQ(member.group.sequence(), 1U);
    for (int i = 0; i < 40; ++i) {
      const Ints& room = *rooms[static_cast<std::size_t>(i)];
      for (std::int64_t k = 0; k < room.count(); ++k) ASSERT_EQ(room.data()[k], 2 * i + 1);
    }
  });
}

}  // namespace tessera::comm::suite
