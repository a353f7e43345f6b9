// The order of operations and of reductions: streams, captures, bits.
#include <malloc.h>

#include <bit>
#include <cstring>
#include <thread>

#include "tessera/comm/suite/comm_suite.h"
#include "tessera/device/graph.h"
#include "tessera/memory/allocator.h"

namespace tessera::comm::suite {
namespace {

// Returns the heap bytes in use. Returns 0 under sanitizers, which have their own heap; glibc's heap would break if two
// ranks first used it at the same time.
std::size_t heap_bytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 0;
#else
  return ::mallinfo2().uordblks;
#endif
}

// The reference: a left fold in rank order, in f32.
std::vector<float> left_fold(int ranks, std::int64_t count) {
  std::vector<float> sum(static_cast<std::size_t>(count));
  std::vector<float> next(sum.size());
  for (int rank = 0; rank < ranks; ++rank) {
    fill_random(DType::kF32, rank, count, reinterpret_cast<std::byte*>(next.data()));
    for (std::size_t i = 0; i < sum.size(); ++i) {
      volatile const float folded = rank == 0 ? next[i] : sum[i] + next[i];
      sum[i] = folded;
    }
  }
  return sum;
}

}  // namespace

TEST_P(CommSuite, SumsAreTheLeftFoldInRankOrderBitForBit) {
  on_ranks(4, [](CaseRank& member) {
    for (const std::int64_t count : {1, 3, 1000, 4096, 4099, 100'003}) {
      const std::vector<float> expected = left_fold(4, count);
      for (const Where where : {Where::kDevice, Where::kHeap, member.mixed()}) {
        const Room in(member, where, expected.size() * 4);
        fill_random(DType::kF32, member.rank(), count, in.data());
        member.group.all_reduce(in.data(), in.data(), count, DType::kF32, {}, member.stream).wait();
        ASSERT_EQ(std::memcmp(in.data(), expected.data(), in.nbytes()), 0) << count;
      }
    }
  });
}

TEST_P(CommSuite, HalvesAreAccumulatedInF32AndRoundedOnce) {
  on_ranks(3, [](CaseRank& member) {
    constexpr std::int64_t kCount = 9001;
    std::vector<float> sum(kCount);
    for (int rank = 0; rank < 3; ++rank) {
      std::vector<bf16> given(kCount);
      fill_random(DType::kBF16, rank, kCount, reinterpret_cast<std::byte*>(given.data()));
      for (std::size_t i = 0; i < sum.size(); ++i) {
        const auto value = static_cast<float>(given[i]);
        sum[i] = rank == 0 ? value : sum[i] + value;
      }
    }
    const Room in(member, Where::kDevice, kCount * 2);
    fill_random(DType::kBF16, member.rank(), kCount, in.data());
    member.group.all_reduce(in.data(), in.data(), kCount, DType::kBF16, {}, member.stream).wait();
    for (std::size_t i = 0; i < sum.size(); ++i) {
      bf16 got;
      std::memcpy(&got, in.data() + 2 * i, 2);
      ASSERT_EQ(std::bit_cast<std::uint16_t>(got), std::bit_cast<std::uint16_t>(static_cast<bf16>(sum[i]))) << i;
    }
  });
}

TEST_P(CommSuite, EveryCollectiveThatReducesGivesTheSameBits) {
  on_ranks(3, [](CaseRank& member) {
    constexpr std::int64_t kCount = 3 * 5003;
    const Room in(member, Where::kDevice, kCount * 4);
    const Room all(member, Where::kDevice, kCount * 4);
    const Room part(member, Where::kDevice, kCount / 3 * 4);
    const Room gathered(member, Where::kDevice, kCount * 4);
    fill_random(DType::kF32, member.rank(), kCount, in.data());
    member.group.all_reduce(in.data(), all.data(), kCount, DType::kF32, {}, member.stream);
    member.group.reduce_scatter(in.data(), part.data(), kCount / 3, DType::kF32, {}, member.stream);
    member.group.all_gather(part.data(), gathered.data(), kCount / 3, DType::kF32, member.stream).wait();
    EXPECT_EQ(all.bytes(), gathered.bytes());
  });
}

TEST_P(CommSuite, OperationsOfSeveralStreamsRunInTheOrderTheyWereAskedFor) {
  on_ranks(3, [](CaseRank& member) {
    const device::Stream streams[] = {member.stream, member.host.create_stream(), member.host.create_stream()};
    const Room x(member, Where::kDevice, 8);
    auto* value = reinterpret_cast<std::int64_t*>(x.data());
    *value = 1;
    for (int i = 0; i < 12; ++i) {
      member.group.all_reduce(value, value, 1, DType::kI64, {}, streams[static_cast<std::size_t>(i * 7 % 3)]);
    }
    for (const device::Stream& stream : streams) stream.synchronize();
    EXPECT_EQ(*value, 531'441);
    EXPECT_EQ(member.group.sequence(), 12U);
  });
}

TEST_P(CommSuite, AThreadedStreamRunsBesideItsHost) {
  on_ranks(2, [](CaseRank& member) {
    const device::Stream side = member.host.create_stream();
    const Room x(member, Where::kDevice, 40'000);
    auto* values = reinterpret_cast<float*>(x.data());
    std::fill_n(values, 10'000, 1.0F);
    std::vector<Work> works;
    for (int i = 0; i < 10; ++i)
      works.push_back(member.group.all_reduce(values, values, 10'000, DType::kF32, {}, side));
    for (const Work& work : works) work.wait();
    EXPECT_EQ(values[9999], 1024.0F);
    for (std::size_t i = 0; i < works.size(); ++i) EXPECT_EQ(works[i].sequence(), i + 1);
  });
}

TEST_P(CommSuite, WorkTellsWhenItEndsAndHowLongItTook) {
  on_ranks(2, [](CaseRank& member) {
    const device::Stream side = member.host.create_stream();
    device::Hold hold = side.hold(kSoon);
    const Room x(member, Where::kDevice, 4000);
    std::fill_n(reinterpret_cast<float*>(x.data()), 1000, 1.0F);
    const Work work = member.group.all_reduce(x.data(), x.data(), 1000, DType::kF32, {}, side);
    EXPECT_FALSE(work.is_done());
    EXPECT_EQ(work.sequence(), 0U);
    EXPECT_EQ(work.error(), nullptr);
    expect_error<InvalidArgument>([&] { (void)work.duration(); }, {"wait for it"});
    work.wait_on(member.stream);
    float seen = 0;
    member.stream.run([&seen, &x] { seen = *reinterpret_cast<const float*>(x.data()); });
    hold.release();
    member.stream.synchronize();
    EXPECT_EQ(seen, 2.0F);
    EXPECT_TRUE(work.is_done());
    EXPECT_GE(work.duration().count(), 0);
    EXPECT_EQ(work.sequence(), 1U);
  });
}

TEST_P(CommSuite, CapturedOperationsRunOnceAReplay) {
  on_ranks(2, [](CaseRank& member) {
    const device::Stream stream = member.host.create_stream();
    const Room x(member, Where::kDevice, 40'000);
    auto* values = reinterpret_cast<float*>(x.data());
    std::fill_n(values, 10'000, 1.0F);
    stream.begin_capture();
    EXPECT_FALSE(member.group.all_reduce(values, values, 10'000, DType::kF32, {}, stream));
    EXPECT_FALSE(member.group.all_reduce(values, values, 1, DType::kF32, {}, stream));
    const device::GraphExec graph = stream.end_capture().instantiate();
    EXPECT_EQ(member.group.sequence(), 0U);
    for (int i = 0; i < 5; ++i) graph.launch(stream);
    stream.synchronize();
    EXPECT_EQ(values[0], 1024.0F);
    EXPECT_EQ(values[9999], 32.0F);
    EXPECT_EQ(member.group.sequence(), 10U);
  });
}

// Operations are numbered when they run: ranks that captured meet ranks that did not.
TEST_P(CommSuite, ReplaysOnOneRankMeetEagerOperationsOnAnother) {
  on_ranks(2, [](CaseRank& member) {
    const device::Stream stream = member.host.create_stream();
    const Room x(member, Where::kDevice, 4);
    auto* value = reinterpret_cast<float*>(x.data());
    *value = 1;
    const auto reduce = [&] { return member.group.all_reduce(value, value, 1, DType::kF32, {}, stream); };
    stream.begin_capture();
    (void)reduce();
    const device::GraphExec graph = stream.end_capture().instantiate();
    for (int i = 0; i < 12; ++i) {
      if ((i + member.rank()) % 3 == 0) {
        graph.launch(stream);
      } else {
        (void)reduce();
      }
    }
    stream.synchronize();
    EXPECT_EQ(*value, 4096.0F);
    EXPECT_EQ(member.group.sequence(), 12U);
  });
}

TEST_P(CommSuite, OperationsThatNobodyWaitsForKeepNothing) {
  if (is_seeded()) GTEST_SKIP() << "too many for ranks that take turns";
  on_ranks(2, [](CaseRank& member) {
    const device::Stream side = member.host.create_stream();
    const Room x(member, Where::kDevice, 64);
    std::memset(x.data(), 0, 64);
    // Most of them run alone: 100,000 meetings on a busy machine take minutes and add nothing.
    const ProcessGroup alone = member.group.split(member.rank());
    const auto run = [&](const ProcessGroup& group, int times) {
      for (int i = 0; i < times; ++i) {
        group.all_reduce(x.data(), x.data(), 16, DType::kF32, {}, side);
        if (i % 1000 == 999) side.synchronize();
      }
      side.synchronize();
    };
    run(alone, 1000);
    run(member.group, 100);
    const std::size_t before = heap_bytes();
    const std::weak_ptr<GroupState> state = member.group.state();
    const long uses = state.use_count();
    run(alone, 100'000);
    run(member.group, 2000);
    EXPECT_LT(heap_bytes(), before + (std::size_t{1} << 20)) << "bytes of the heap";
    EXPECT_EQ(state.use_count(), uses) << "tasks that have ended are still held";
    EXPECT_EQ(alone.sequence(), 101'000U);
    EXPECT_EQ(member.group.sequence(), 2100U);
  });
}

// No thread waits for it, and no operation follows.
TEST_P(CommSuite, AnIdleProcessLetsGoOfTheLastOperation) {
  if (is_seeded()) GTEST_SKIP() << "nobody else runs there while this rank looks";
  on_ranks(2, [](CaseRank& member) {
    const device::Stream side = member.host.create_stream();
    const Room x(member, Where::kDevice, 64);
    std::memset(x.data(), 0, 64);
    const std::weak_ptr<GroupState> state = member.group.state();
    const long uses = state.use_count();
    member.group.all_reduce(x.data(), x.data(), 16, DType::kF32, {}, side);
    const auto until = std::chrono::steady_clock::now() + kSoon;
    while (state.use_count() > uses && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    EXPECT_EQ(state.use_count(), uses);
  });
}

TEST_P(CommSuite, BuffersMayBeUsedAgainOnceAnOperationHasEnded) {
  on_ranks(3, [](CaseRank& member) {
    constexpr std::int64_t kCount = 30'000;
    const Room in(member, Where::kDevice, kCount * 4);
    const Room out(member, Where::kDevice, kCount * 4);
    auto* from = reinterpret_cast<float*>(in.data());
    auto* to = reinterpret_cast<float*>(out.data());
    for (int round = 0; round < 40; ++round) {
      std::fill_n(from, kCount, static_cast<float>(round * (member.rank() + 1)));
      member.group.all_reduce(from, to, kCount, DType::kF32, {}, member.stream).wait();
      // Overwritten immediately, which exposes a peer that still reads or writes here.
      std::fill_n(from, kCount, -1.0F);
      for (std::int64_t i = 0; i < kCount; ++i) ASSERT_EQ(to[i], static_cast<float>(6 * round)) << "round " << round;
      std::fill_n(to, kCount, -2.0F);
    }
  });
}

// Remapped memory may be different memory at the same address.
TEST_P(CommSuite, MemoryThatMovesIsFoundAgain) {
  if (GetParam().device != "host") GTEST_SKIP() << "the host does not write there";
  on_ranks(2, [](CaseRank& member) {
    const std::size_t nbytes = member.host.properties().granularity;
    const auto count = static_cast<std::int64_t>(nbytes / 4);
    device::AddressRange range = member.host.reserve(nbytes);
    const auto* values = reinterpret_cast<float*>(range.data());
    std::vector<device::Memory> kept;
    for (int round = 0; round < 5; ++round) {
      kept.push_back(member.host.create_memory(nbytes));
      range.map(0, kept.back());
      std::fill_n(reinterpret_cast<float*>(range.data()), count, static_cast<float>(round + member.rank()));
      member.group.all_reduce(range.data(), range.data(), count, DType::kF32, {}, member.stream).wait();
      for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(values[i], static_cast<float>(2 * round + 1)) << round;
      range.unmap(0, nbytes);
    }
  });
}

TEST_P(CommSuite, MemoryThatIsFreedAndMadeAgainIsFoundAgain) {
  on_ranks(2, [](CaseRank& member) {
    const memory::Allocator allocator = memory::Allocator::of(member.host);
    for (int round = 0; round < 12; ++round) {
      const std::int64_t count = 50'000 + round % 3 * 700'000;
      {
        const Room in(member, Where::kDevice, static_cast<std::size_t>(count) * 4);
        std::fill_n(reinterpret_cast<float*>(in.data()), count, static_cast<float>(round + member.rank()));
        member.group.all_reduce(in.data(), in.data(), count, DType::kF32, {}, member.stream).wait();
        for (std::int64_t i = 0; i < count; i += 997) {
          ASSERT_EQ(reinterpret_cast<const float*>(in.data())[i], static_cast<float>(2 * round + 1));
        }
      }
      (void)allocator.trim();
    }
  });
}

}  // namespace tessera::comm::suite
