// Symmetric memory: ranks find the same memory, ranks that differ get errors, and example uses.
#include <algorithm>
#include <cstring>

#include "tessera/comm/suite/comm_suite.h"
#include "tessera/comm/symmetric.h"
#include "tessera/device/graph.h"
#include "tessera/memory/allocator.h"

namespace tessera::comm::suite {
namespace {

void barrier(const CaseRank& member) { member.group.launch({.kind = OpKind::kBarrier}, member.stream).wait(); }

// Fails unless all ranks pass the same value.
void expect_same_everywhere(const std::string& what, const std::string& value) {
  EXPECT_EQ(*store()->compare_set(what, std::nullopt, value), value) << what;
}

// Each rank writes all of its bytes, and reads those of the others.
void expect_reachable(const CaseRank& member, const SymmetricPool& pool, const SymmetricBuffer& x) {
  const auto mark = [&](int rank) { return static_cast<int>(x.offset() / 512 % 50) + rank; };
  std::memset(x.data(), mark(member.rank()), x.nbytes());
  pool.barrier(0, member.stream);
  member.stream.synchronize();
  for (int peer = 0; peer < member.size(); ++peer) {
    const std::byte* theirs = x.peer(peer);
    const bool is_whole =
        std::all_of(theirs, theirs + x.nbytes(), [&](std::byte byte) { return static_cast<int>(byte) == mark(peer); });
    EXPECT_TRUE(is_whole) << "bytes of rank " << peer;
  }
  pool.barrier(0, member.stream);
  member.stream.synchronize();
}

// A user's implementation: all ranks write, all read all inputs, and no rank writes again before all have read.
void one_shot_all_reduce(const SymmetricPool& pool, const SymmetricBuffer& x, float* out, std::int64_t count,
                         const device::Stream& stream) {
  std::vector<const std::byte*> in;
  for (int peer = 0; peer < pool.group().size(); ++peer) in.push_back(x.peer(peer));
  pool.barrier(0, stream);
  stream.run([in, out, count] {
    auto* to = reinterpret_cast<std::byte*>(out);
    fold(DType::kF32, {}, in, std::span(&to, 1), count);
  });
  pool.barrier(0, stream);
}

}  // namespace

TEST_P(SymmetricSuite, EveryRankReachesTheSameBytesOfEveryOther) {
  on_ranks(3, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream, {.nbytes = 1 << 20});
    EXPECT_EQ(pool.group().name(), "world");
    EXPECT_EQ(pool.channels(), 8);
    EXPECT_GE(pool.mapped_nbytes(), std::size_t{1} << 20);
    std::vector<SymmetricBuffer> buffers;
    for (const std::size_t nbytes : {1, 511, 512, 513, 100'000}) {
      buffers.push_back(pool.allocate(nbytes));
      EXPECT_TRUE(buffers.back().is_mapped());
      EXPECT_EQ(buffers.back().nbytes(), nbytes);
      EXPECT_EQ(buffers.back().offset() % 512, 0U);
      EXPECT_EQ(buffers.back().peer(member.rank()), buffers.back().data());
    }
    for (const SymmetricBuffer& x : buffers) expect_reachable(member, pool, x);
  });
}

TEST_P(SymmetricSuite, OffsetsFollowFromTheRequestsAlone) {
  on_ranks(3, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream, {.nbytes = 1 << 16});
    // Other work of the ranks, and their other mappings, do not matter.
    std::vector<memory::Buffer> others;
    std::string offsets;
    std::vector<SymmetricBuffer> held;
    for (int i = 0; i < 60; ++i) {
      others.push_back(memory::Allocator::of(member.host)
                           .allocate(static_cast<std::size_t>((member.rank() + 1) * 1000 * (i + 1)), member.stream));
      held.push_back(pool.allocate(static_cast<std::size_t>(1 + i * 7919 % 5000)));
      offsets += std::to_string(held.back().offset()) + " ";
      if (i % 3 == 2) held.erase(held.begin() + i * 31 % static_cast<int>(held.size()));
      if (i % 20 == 19) pool.rendezvous();
    }
    expect_same_everywhere("offsets", offsets);
  });
}

// The first request contains no hidden meeting: ranks make it one after the other.
TEST_P(SymmetricSuite, ARequestWaitsForNobody) {
  on_ranks(3, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream, {.nbytes = 1 << 16});
    if (member.rank() > 0) CaseRank::hear("rank " + std::to_string(member.rank() - 1));
    const SymmetricBuffer x = pool.allocate(1000);
    SymmetricBuffer gone = pool.allocate(1 << 20);
    gone.reset();
    CaseRank::say("rank " + std::to_string(member.rank()));
    CaseRank::hear("rank 2");
    expect_reachable(member, pool, x);
  });
}

TEST_P(SymmetricSuite, WhatIsGivenBackIsHandedOutAgain) {
  on_ranks(2, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream, {.nbytes = 1 << 16});
    SymmetricBuffer first = pool.allocate(4096);
    const SymmetricBuffer second = pool.allocate(4096);
    const std::uint64_t offset = first.offset();
    first = SymmetricBuffer();
    EXPECT_FALSE(first);
    EXPECT_EQ(first.nbytes(), 0U);
    SymmetricBuffer third = pool.allocate(4000);
    EXPECT_EQ(third.offset(), offset);
    const SymmetricBuffer moved = std::move(third);
    EXPECT_EQ(moved.offset(), offset);
    expect_reachable(member, pool, moved);
    expect_reachable(member, pool, second);
  });
}

TEST_P(SymmetricSuite, WhatDoesNotFitIsMappedByTheNextRendezvous) {
  on_ranks(2, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream, {.name = "grows"});
    EXPECT_EQ(pool.mapped_nbytes(), 0U);
    const SymmetricBuffer x = pool.allocate(100'000);
    EXPECT_FALSE(x.is_mapped());
    expect_error<InvalidArgument>([&] { (void)x.data(); }, {"grows", "100000 bytes", "call rendezvous() on all ranks"});
    expect_error<InvalidArgument>([&] { (void)x.peer(0); }, {"rendezvous()"});
    expect_error<InvalidArgument>([&] { (void)x.peer(2); }, {"rank must be in [0, 1], got 2"});
    pool.rendezvous();
    EXPECT_TRUE(x.is_mapped());
    expect_reachable(member, pool, x);
    expect_error<InvalidArgument>([&] { (void)pool.allocate(0); }, {"nbytes must be in [1, ", "], got 0"});
  });
}

TEST_P(SymmetricSuite, GrowthMovesNothing) {
  on_ranks(2, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream, {.nbytes = 1 << 16});
    const int other = 1 - member.rank();
    const SymmetricBuffer first = pool.allocate(60'000);
    std::byte* const own = first.data();
    std::byte* const theirs = first.peer(other);
    std::memset(own, 7, first.nbytes());
    std::vector<SymmetricBuffer> more;
    for (int round = 0; round < 4; ++round) {
      more.push_back(pool.allocate(std::size_t{50'000} << round));
      more.push_back(pool.allocate(3000));
      pool.rendezvous();
      for (const SymmetricBuffer& x : more) expect_reachable(member, pool, x);
      if (round % 2 == 0) more.erase(more.begin());
    }
    EXPECT_EQ(first.data(), own);
    EXPECT_EQ(first.peer(other), theirs);
    EXPECT_EQ(own[59'999], std::byte{7});
    // All chunks are free again, in several segments: a buffer lies in one.
    more.clear();
    const std::size_t mapped = pool.mapped_nbytes();
    const SymmetricBuffer large = pool.allocate(mapped - 65'536);
    EXPECT_FALSE(large.is_mapped());
    pool.rendezvous();
    expect_reachable(member, pool, large);
  });
}

TEST_P(SymmetricSuite, ALargeBufferIsReachedToItsLastByte) {
  on_ranks(2, [](CaseRank& member) {
    constexpr std::size_t kBytes = std::size_t{300} << 20;
    const SymmetricPool pool(member.group, member.stream, {.nbytes = kBytes});
    const SymmetricBuffer x = pool.allocate(kBytes);
    x.data()[kBytes - 1] = static_cast<std::byte>(member.rank() + 1);
    pool.barrier(0, member.stream);
    member.stream.synchronize();
    EXPECT_EQ(x.peer(1 - member.rank())[kBytes - 1], static_cast<std::byte>(2 - member.rank()));
    pool.barrier(0, member.stream);
    member.stream.synchronize();
  });
}

TEST_P(SymmetricSuite, ACaptureMayAskButNotMeet) {
  on_ranks(2, [](CaseRank& member) {
    const device::Stream stream = member.host.create_stream();
    const SymmetricPool pool(member.group, stream, {.nbytes = 1 << 16});
    stream.begin_capture();
    const SymmetricBuffer x = pool.allocate(4096);
    EXPECT_TRUE(x.is_mapped());
    const SymmetricBuffer large = pool.allocate(1 << 20);
    expect_error<InvalidArgument>([&] { pool.rendezvous(); }, {"rendezvous must not run in a capture"});
    expect_error<InvalidArgument>([&] { const SymmetricPool other(member.group, stream); },
                                  {"a pool must not be created in a capture"});
    pool.barrier(0, stream);
    const device::GraphExec graph = stream.end_capture().instantiate();
    for (int i = 0; i < 3; ++i) graph.launch(stream);
    stream.synchronize();
    pool.rendezvous();
    EXPECT_TRUE(large.is_mapped());
  });
}

TEST_P(SymmetricSuite, AnotherRequestIsNamedOnAllRanks) {
  on_ranks(3, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream, {.name = "shared", .nbytes = 1 << 16});
    const SymmetricBuffer x = pool.allocate(512);
    const SymmetricBuffer y = pool.allocate(member.rank() == 1 ? 8192 : 4096);
    const std::initializer_list<std::string_view> words = {
        "group world", "shared",
        "request 3 differs: ranks 0 and 2 requested allocate(4096), rank 1 requested allocate(8192)"};
    expect_error<MismatchError>([&] { pool.rendezvous(); }, words);
    // The pool is unusable, the group is not.
    expect_error<MismatchError>([&] { pool.rendezvous(); }, words);
    expect_error<MismatchError>([&] { (void)pool.allocate(1); }, words);
    expect_error<MismatchError>([&] { pool.barrier(0, member.stream); }, words);
    barrier(member);
    const SymmetricPool fresh(member.group, member.stream, {.nbytes = 4096});
    expect_reachable(member, fresh, fresh.allocate(4096));
  });
}

TEST_P(SymmetricSuite, ARequestTooFewIsNamedOnAllRanks) {
  on_ranks(3, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream, {.nbytes = 1 << 20});
    std::vector<SymmetricBuffer> held;
    for (int i = 0; i < 40; ++i) held.push_back(pool.allocate(512));
    if (member.rank() != 2) held.pop_back();
    expect_error<MismatchError>(
        [&] { pool.rendezvous(); },
        {"request 42 differs", "ranks 0 and 1 requested free(512 at 19968), rank 2 requested nothing more"});
  });
}

// Without this, different offsets go unnoticed: both ranks have room.
TEST_P(SymmetricSuite, ABarrierFindsRequestsThatDiffer) {
  on_ranks(3, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream, {.name = "shared", .nbytes = 1 << 16});
    for (int i = 0; i < 5; ++i) pool.barrier(0, member.stream);
    const SymmetricBuffer x = pool.allocate(member.rank() == 1 ? 8192 : 4096);
    pool.barrier(0, member.stream);
    expect_stream_error<MismatchError>(
        member.stream, {"shared, barrier(channel 0)", "rank 1 made other pool requests than ranks 0 and 2"});
    expect_error<MismatchError>([&] { barrier(member); }, {"rank 1 made other pool requests"});
    member.stream.reset_error();
  });
}

TEST_P(SymmetricSuite, AnotherPoolIsNamedOnAllRanks) {
  on_ranks(3, [](CaseRank& member) {
    expect_error<MismatchError>(
        [&] { const SymmetricPool pool(member.group, member.stream, {.channels = member.rank() == 0 ? 4 : 8}); },
        {"ranks 1 and 2 requested a pool(0 bytes, 8 channels), rank 0 requested a pool(0 bytes, 4 channels)"});
    const SymmetricPool first(member.group, member.stream);
    const SymmetricPool second(member.group, member.stream);
    expect_error<MismatchError>([&] { (member.rank() == 1 ? second : first).rendezvous(); },
                                {"ranks 0 and 2 for pool 2, rank 1 for pool 3"});
    barrier(member);
  });
}

TEST_P(SymmetricSuite, AnotherOperationInPlaceOfARendezvousIsNamed) {
  on_ranks(3, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream);
    expect_error<MismatchError>(
        [&] {
          if (member.rank() == 1) {
            barrier(member);
          } else {
            pool.rendezvous();
          }
        },
        {"group world", "ranks 0 and 2 run rendezvous", "rank 1 barrier"});
    member.stream.reset_error();
  });
}

TEST_P(SymmetricSuite, ARankWithoutMemoryIsNamedAndNothingChanges) {
  on_ranks(2, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream, {.nbytes = 1 << 16});
    const SymmetricBuffer small = pool.allocate(4096);
    const SymmetricBuffer x = pool.allocate(1 << 20);
    if (member.rank() == 1) {
      member.host.faults().fail(device::DriverCall::kCreateMemory, 1, ErrorKind::kOutOfMemory);
      (void)memory::Allocator::of(member.host).trim();
      expect_error<OutOfMemory>([&] { pool.rendezvous(); });
    } else {
      expect_error<AbortedError>([&] { pool.rendezvous(); }, {"rank 1 could not map its memory (1048576 bytes)"});
    }
    EXPECT_FALSE(x.is_mapped());
    expect_reachable(member, pool, small);
    pool.rendezvous();
    expect_reachable(member, pool, x);
    if (member.rank() == 0) member.host.faults().fail(device::DriverCall::kReserve, 1);
    try {
      const SymmetricPool other(member.group, member.stream, {.nbytes = 1 << 16});
      ADD_FAILURE() << "a pool that rank 0 has no addresses for";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), member.rank() == 0 ? ErrorKind::kDevice : ErrorKind::kAborted) << error.what();
    }
    barrier(member);
  });
}

// Pool numbers are those of the group, not of the process.
TEST_P(SymmetricSuite, PoolsOfASubgroupAndOfTheWorldStandSideBySide) {
  on_ranks(4, [](CaseRank& member) {
    const int places[] = {3, 1};
    const ProcessGroup pair = member.group.subgroup(places);
    SymmetricPool inner;
    if (pair) inner = SymmetricPool(pair, member.stream, {.nbytes = 4096});
    const SymmetricPool outer(member.group, member.stream, {.nbytes = 4096});
    const SymmetricBuffer x = outer.allocate(100);
    if (pair) {
      const SymmetricBuffer y = inner.allocate(100);
      y.data()[0] = static_cast<std::byte>(member.rank());
      inner.barrier(0, member.stream);
      member.stream.synchronize();
      EXPECT_EQ(y.peer(0)[0], std::byte{3});
      EXPECT_EQ(y.peer(1)[0], std::byte{1});
      inner.barrier(0, member.stream);
    }
    expect_reachable(member, outer, x);
  });
}

TEST_P(SymmetricSuite, AWorldOfOneHasItToo) {
  on_ranks(1, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream);
    const SymmetricBuffer x = pool.allocate(100);
    pool.rendezvous();
    expect_reachable(member, pool, x);
  });
}

TEST_P(SymmetricSuite, AOneShotAllReduceIsTheFoldBitForBit) {
  on_ranks(4, [](CaseRank& member) {
    const device::Stream stream = member.host.create_stream();
    const SymmetricPool pool(member.group, stream, {.nbytes = 1 << 20});
    for (const std::int64_t count : {1, 1000, 50'003}) {
      const SymmetricBuffer x = pool.allocate(static_cast<std::size_t>(count) * 4);
      const std::vector<std::byte> expected = folded(DType::kF32, {}, 4, count);
      std::vector<float> out(static_cast<std::size_t>(count));
      for (int round = 0; round < 5; ++round) {
        // Overwritten immediately, which exposes a peer that still reads here.
        fill_random(DType::kF32, member.rank(), count, x.data());
        one_shot_all_reduce(pool, x, out.data(), count, stream);
        stream.synchronize();
        std::memset(x.data(), 0xFF, x.nbytes());
        ASSERT_EQ(std::memcmp(out.data(), expected.data(), expected.size()), 0) << count;
      }
    }
  });
}

TEST_P(SymmetricSuite, ACapturedOneShotAllReduceRunsOnceAReplay) {
  on_ranks(3, [](CaseRank& member) {
    const device::Stream stream = member.host.create_stream();
    const SymmetricPool pool(member.group, stream, {.nbytes = 4096});
    const SymmetricBuffer x = pool.allocate(16);
    auto* in = reinterpret_cast<float*>(x.data());
    float out = 0;
    *in = static_cast<float>(member.rank() + 1);
    stream.begin_capture();
    one_shot_all_reduce(pool, x, &out, 1, stream);
    stream.run([&] { *in = out; });
    const device::GraphExec graph = stream.end_capture().instantiate();
    for (int i = 0; i < 4; ++i) graph.launch(stream);
    stream.synchronize();
    EXPECT_EQ(out, 6.0F * 27);
  });
}

// A ring with signals between neighbors only and a channel per step, which ends in a barrier.
TEST_P(SymmetricSuite, ARingAllGatherBySignalsOfNeighbours) {
  on_ranks(4, [](CaseRank& member) {
    constexpr std::int64_t kCount = 1000;
    const device::Stream stream = member.host.create_stream();
    const SymmetricPool pool(member.group, stream, {.nbytes = 1 << 16});
    const SymmetricBuffer x = pool.allocate(4 * kCount * 8);
    auto* own = reinterpret_cast<std::int64_t*>(x.data());
    const int next = (member.rank() + 1) % 4;
    const int previous = (member.rank() + 3) % 4;
    auto* to = reinterpret_cast<std::int64_t*>(x.peer(next));
    for (int round = 0; round < 10; ++round) {
      std::fill_n(own + member.rank() * kCount, kCount, round * 10 + member.rank());
      for (int step = 0; step < 3; ++step) {
        const std::int64_t part = (member.rank() + 4 - step) % 4 * kCount;
        stream.run([=] { std::copy_n(own + part, kCount, to + part); });
        pool.put_signal(next, step, stream);
        pool.wait_signal(previous, step, stream);
      }
      pool.barrier(7, stream);
      stream.synchronize();
      for (std::int64_t i = 0; i < 4 * kCount; ++i) ASSERT_EQ(own[i], round * 10 + i / kCount);
      pool.barrier(7, stream);
      stream.synchronize();
    }
  });
}

}  // namespace tessera::comm::suite
