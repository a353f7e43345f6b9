// Ranks that share a GPU, with GPU memory: results of all collectives, compared bit for bit with a reference on the
// host, and behavior specific to GPUs: graphs, streams, addresses.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <span>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/backends/cuda/testing/gpu_ranks.h"
#include "tessera/comm/reduction.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/world.h"
#include "tessera/device/graph.h"

namespace tessera::comm::cuda {
namespace {

using namespace std::chrono_literals;

class GpuRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  }
};

// Returns the input of `rank`: numbers of all magnitudes, which expose order and rounding; integers with all bits.
std::vector<std::byte> given(DType dtype, int rank, std::int64_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) * 7919 + 3);
  const std::size_t nbytes = static_cast<std::size_t>(count) * itemsize(dtype);
  std::vector<std::byte> bytes(nbytes);
  const auto number = [&] {
    const double magnitude = static_cast<double>(random() % 1000) / 100 - 5;
    return static_cast<float>((static_cast<double>(random()) / 2147483648.0 - 1) * std::exp2(magnitude));
  };
  const auto fill = [&]<class T>(T*) {
    for (std::size_t at = 0; at < nbytes; at += sizeof(T)) {
      const T value = static_cast<T>(number());
      std::memcpy(bytes.data() + at, &value, sizeof(T));
    }
  };
  switch (dtype) {
    case DType::kF32:
    case DType::kC64: fill(static_cast<float*>(nullptr)); break;
    case DType::kF64:
    case DType::kC128: fill(static_cast<double*>(nullptr)); break;
    case DType::kF16: fill(static_cast<f16*>(nullptr)); break;
    case DType::kBF16: fill(static_cast<bf16*>(nullptr)); break;
    default:
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(dtype == DType::kBool ? random() % 2 : random());
  }
  return bytes;
}

std::vector<std::byte> folded(DType dtype, const ReduceOp& reduction, int ranks, std::int64_t count) {
  std::vector<std::vector<std::byte>> inputs;
  std::vector<const std::byte*> in;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(given(dtype, rank, count));
  for (const auto& input : inputs) in.push_back(input.data());
  std::vector<std::byte> result(inputs[0].size());
  std::byte* out = result.data();
  fold(dtype, reduction, in, std::span(&out, 1), count);
  return result;
}

std::vector<std::byte> part(const std::vector<std::byte>& whole, std::size_t first, std::size_t nbytes) {
  const auto from = whole.begin() + static_cast<std::ptrdiff_t>(first);
  return {from, from + static_cast<std::ptrdiff_t>(nbytes)};
}

}  // namespace

TEST_F(GpuRanks, EveryDTypeAndReductionIsFoldedInFixedOrderSmallAndLarge) {
  on_gpu_ranks(3, [](const GpuRank& rank) {
    for (const DType dtype : kAllDTypes) {
      for (int k = 0; k <= static_cast<int>(Reduction::kPremultiply); ++k) {
        const ReduceOp reduction{static_cast<Reduction>(k), 0.3};
        if (!can_reduce(dtype, reduction.kind)) continue;
        for (const std::int64_t count : {37, 33'333}) {
          const GpuBytes x(rank, given(dtype, rank.rank(), count));
          rank.group.all_reduce(x.data(), x.data(), count, dtype, reduction, rank.stream).wait();
          ASSERT_EQ(x.read(), folded(dtype, reduction, 3, count))
              << to_string(dtype) << " " << to_string(reduction.kind) << " " << count;
        }
      }
    }
  });
}

TEST_F(GpuRanks, SumsOfEverySizeAndNumberOfRanksAreTheSameBits) {
  for (const int ranks : {1, 2, 5, 8}) {
    on_gpu_ranks(ranks, [ranks](const GpuRank& rank) {
      for (const std::int64_t count : {0, 1, 3, 4095, 4096, 4097, 65'537, 1'000'003}) {
        const GpuBytes in(rank, given(DType::kF32, rank.rank(), count));
        const GpuBytes out(rank, static_cast<std::size_t>(count) * 4);
        rank.group.all_reduce(in.data(), out.data(), count, DType::kF32, {}, rank.stream).wait();
        ASSERT_EQ(out.read(), folded(DType::kF32, {}, ranks, count)) << ranks << " ranks, " << count;
      }
    });
  }
}

TEST_F(GpuRanks, BuffersMayBeginAnywhere) {
  on_gpu_ranks(2, [](const GpuRank& rank) {
    for (const std::int64_t count : {50, 40'000}) {
      const auto nbytes = static_cast<std::size_t>(count) * 2;
      const std::vector<std::byte> values = given(DType::kBF16, rank.rank(), count);
      for (const std::size_t in_at : {0, 2, 14}) {
        for (const std::size_t out_at : {0, 6}) {
          const GpuBytes in(rank, nbytes + 64);
          const GpuBytes out(rank, nbytes + 64);
          rank.stream.copy(in.data() + in_at, values.data(), nbytes);
          rank.stream.fill(out.data(), 0xCD, 1, nbytes + 64);
          rank.group.all_reduce(in.data() + in_at, out.data() + out_at, count, DType::kBF16, {}, rank.stream).wait();
          const std::vector<std::byte> all = out.read();
          ASSERT_EQ(part(all, out_at, nbytes), folded(DType::kBF16, {}, 2, count)) << in_at << " " << out_at;
          for (std::size_t i = 0; i < out_at; ++i) ASSERT_EQ(all[i], std::byte{0xCD});
          for (std::size_t i = out_at + nbytes; i < all.size(); ++i) ASSERT_EQ(all[i], std::byte{0xCD}) << i;
        }
      }
    }
  });
}

TEST_F(GpuRanks, PartsGoWhereTheyBelong) {
  on_gpu_ranks(4, [](const GpuRank& rank) {
    const auto me = static_cast<std::size_t>(rank.rank());
    for (const std::int64_t count : {1, 700, 5000, 300'001}) {
      const auto nbytes = static_cast<std::size_t>(count) * 4;
      const GpuBytes own(rank, given(DType::kI32, rank.rank(), count));
      const GpuBytes whole(rank, given(DType::kI32, rank.rank(), 4 * count));
      const GpuBytes gathered(rank, 4 * nbytes);
      const GpuBytes scattered(rank, nbytes);
      const GpuBytes exchanged(rank, 4 * nbytes);
      const GpuBytes sent(rank, nbytes);
      rank.group.all_gather(own.data(), gathered.data(), count, DType::kI32, rank.stream);
      rank.group.reduce_scatter(whole.data(), scattered.data(), count, DType::kI32, {Reduction::kMax}, rank.stream);
      rank.group.all_to_all(whole.data(), exchanged.data(), count, DType::kI32, rank.stream);
      rank.group
          .launch({.kind = OpKind::kBroadcast,
                   .dtype = DType::kI32,
                   .root = 2,
                   .in = own.data(),
                   .out = sent.data(),
                   .count = count},
                  rank.stream)
          .wait();
      const std::vector<std::byte> all = gathered.read();
      const std::vector<std::byte> mixed = exchanged.read();
      for (int peer = 0; peer < 4; ++peer) {
        const std::size_t at = static_cast<std::size_t>(peer) * nbytes;
        ASSERT_EQ(part(all, at, nbytes), given(DType::kI32, peer, count)) << count;
        ASSERT_EQ(part(mixed, at, nbytes), part(given(DType::kI32, peer, 4 * count), me * nbytes, nbytes)) << count;
      }
      ASSERT_EQ(scattered.read(), part(folded(DType::kI32, {Reduction::kMax}, 4, 4 * count), me * nbytes, nbytes));
      ASSERT_EQ(sent.read(), given(DType::kI32, 2, count));
    }
  });
}

// Rank r sends r + p rows to p, from row 10 p on, to row 10 r; other rows keep their values.
TEST_F(GpuRanks, RowsGoWhereArraysOfTheDeviceSay) {
  on_gpu_ranks(3, [](const GpuRank& rank) {
    for (const std::int64_t width : {1, 64, 4099}) {
      const std::int64_t me = rank.rank();
      const GpuBytes offsets(rank, std::vector<std::int64_t>{0, 10, 20});
      const GpuBytes sizes(rank, std::vector<std::int64_t>{me, me + 1, me + 2});
      const GpuBytes places(rank, std::vector<std::int64_t>{10 * me, 10 * me, 10 * me});
      const GpuBytes in(rank, given(DType::kI32, rank.rank(), 30 * width));
      const GpuBytes out(rank, std::vector<std::int32_t>(static_cast<std::size_t>(30 * width), -1));
      Operation op{.kind = OpKind::kRaggedAllToAll,
                   .dtype = DType::kI32,
                   .in = in.data(),
                   .out = out.data(),
                   .count = width,
                   .in_rows = 30,
                   .out_rows = 30};
      op.rows = {.in_offsets = reinterpret_cast<const std::int64_t*>(offsets.data()),
                 .in_sizes = reinterpret_cast<const std::int64_t*>(sizes.data()),
                 .out_offsets = reinterpret_cast<const std::int64_t*>(places.data())};
      rank.group.launch(op, rank.stream).wait();
      const auto got = out.read_as<std::int32_t>();
      for (std::int64_t peer = 0; peer < 3; ++peer) {
        const std::vector<std::byte> theirs = given(DType::kI32, static_cast<int>(peer), 30 * width);
        for (std::int64_t i = 0; i < 10 * width; ++i) {
          std::int32_t expected = -1;
          if (i < (peer + me) * width) std::memcpy(&expected, theirs.data() + (10 * me * width + i) * 4, 4);
          ASSERT_EQ(got[static_cast<std::size_t>(10 * peer * width + i)], expected) << width << " " << peer << " " << i;
        }
      }
    }
  });
}

TEST_F(GpuRanks, RowsOutsideTheInputAreNamed) {
  on_gpu_ranks(2, [](const GpuRank& rank) {
    const GpuBytes offsets(rank, std::vector<std::int64_t>{0, 3});
    const GpuBytes sizes(rank, std::vector<std::int64_t>{1, rank.rank() == 0 ? 2 : 1});
    const GpuBytes x(rank, std::vector<std::int32_t>(8, 7));
    Operation op{.kind = OpKind::kRaggedAllToAll,
                 .dtype = DType::kI32,
                 .in = x.data(),
                 .out = x.data() + 16,
                 .count = 1,
                 .in_rows = 4,
                 .out_rows = 4};
    const auto* array = reinterpret_cast<const std::int64_t*>(offsets.data());
    op.rows = {
        .in_offsets = array, .in_sizes = reinterpret_cast<const std::int64_t*>(sizes.data()), .out_offsets = array};
    expect_error<AbortedError>([&] { rank.group.launch(op, rank.stream).wait(); },
                               {"rank 0 failed", "rows for rank 1 must be in [0, 4), got [3, 3 + 2)"});
  });
}

TEST_F(GpuRanks, ReplaysMixWithEagerOperationsOnAllRanks) {
  on_gpu_ranks(8, [](const GpuRank& rank) {
    constexpr std::int64_t kLarge = 100'000;
    const GpuBytes x(rank, std::vector<std::int64_t>(kLarge, 1));
    const auto reduce = [&](std::int64_t count) {
      return rank.group.all_reduce(x.data(), x.data(), count, DType::kI64, {Reduction::kMax}, rank.stream);
    };
    const auto raise = [&] {
      const GpuBytes y(rank, std::vector<std::int64_t>(1, 1));
      return rank.group.all_reduce(y.data(), y.data(), 1, DType::kI64, {}, rank.stream);
    };
    rank.stream.begin_capture();
    EXPECT_FALSE(reduce(kLarge));
    EXPECT_FALSE(reduce(10));
    const device::GraphExec graph = rank.stream.end_capture().instantiate();
    EXPECT_EQ(rank.group.sequence(), 0U);
    for (int round = 0; round < 30; ++round) {
      if ((round + rank.rank()) % 3 == 0) {
        graph.launch(rank.stream);
      } else {
        reduce(kLarge);
        reduce(10);
      }
      if (round % 10 == 5) raise().wait();
    }
    rank.stream.synchronize(20s);
    EXPECT_EQ(rank.group.sequence(), 63U);
    for (const std::int64_t value : x.read_as<std::int64_t>()) ASSERT_EQ(value, 1);
  });
}

TEST_F(GpuRanks, AReplayThatFailsEndsTheGroup) {
  on_gpu_ranks(2, [](const GpuRank& rank) {
    rank.group.set_deadline(100ms);
    if (rank.rank() == 0) {
      rank.stream.begin_capture();
      (void)rank.group.launch({.kind = OpKind::kBarrier}, rank.stream);
      const device::GraphExec graph = rank.stream.end_capture().instantiate();
      graph.launch(rank.stream);
      rank.stream.synchronize(20s);
      store()->set("over", "");
    }
    (void)store()->get("over", 20s);
    expect_error<TimeoutError>([&] { rank.group.launch({.kind = OpKind::kBarrier}, rank.stream).wait(); },
                               {"group gpu", "operation 1, barrier", "rank 1 did not arrive within 0.1"});
  });
}

TEST_F(GpuRanks, AnExtensionOfTheDeadlineCoversWhatIsQueued) {
  on_gpu_ranks(2, [](const GpuRank& rank) {
    const auto barrier = [&] { return rank.group.launch({.kind = OpKind::kBarrier}, rank.stream); };
    if (rank.rank() == 0) {
      rank.group.set_deadline(500ms);
      const Work first = barrier();
      const Work second = barrier();
      while (first.sequence() == 0) std::this_thread::yield();
      rank.group.extend_deadline(250ms);
      store()->set("extended", "");
      first.wait();
      expect_error<TimeoutError>([&] { second.wait(); },
                                 {"rank 1 did not arrive within 0.75 s (a deadline of 0.5 s, extended by 0.25 s)"});
      store()->set("over", "");
    } else {
      (void)store()->get("extended", 20s);
      barrier().wait();
      (void)store()->get("over", 20s);
    }
  });
}

TEST_F(GpuRanks, AnAbortEndsAKernelThatWaits) {
  on_gpu_ranks(3, [](const GpuRank& rank) {
    const GpuBytes x(rank, std::vector<float>(200'000, 1));
    if (rank.rank() == 1) {
      (void)store()->get("waits 0", 20s);
      (void)store()->get("waits 2", 20s);
      rank.group.abort("no more disk");
    } else {
      const Work work = rank.group.all_reduce(x.data(), x.data(), 200'000, DType::kF32, {}, rank.stream);
      while (work.sequence() == 0) std::this_thread::yield();
      EXPECT_FALSE(work.is_done());
      store()->set("waits " + std::to_string(rank.rank()), "");
      expect_error<AbortedError>([&] { work.wait(); }, {"group gpu", "aborted by rank 1: no more disk"});
      EXPECT_TRUE(work.is_done());
    }
    for (const float value : x.read_as<float>()) ASSERT_EQ(value, 1);
  });
}

TEST_F(GpuRanks, AGroupThatFailedIsFollowedByOneThatWorks) {
  on_gpu_ranks(2, [](const GpuRank& rank) {
    if (rank.rank() == 0) rank.group.abort("try again");
    expect_error<AbortedError>([&] { rank.group.launch({.kind = OpKind::kBarrier}, rank.stream).wait(); },
                               {"try again"});
    const ProcessGroup again = rank.group.shrink(20s);
    ASSERT_EQ(again.size(), 2);
    const GpuBytes x(rank, std::vector<float>(100, 1));
    again.all_reduce(x.data(), x.data(), 100, DType::kF32, {}, rank.stream).wait();
    EXPECT_EQ(x.read_as<float>()[99], 2.0F);
  });
}

TEST_F(GpuRanks, OneStreamForTwoRanksIsRefused) {
  on_gpu_ranks(2, [](const GpuRank& rank) {
    const device::Stream both = rank.gpu.default_stream();
    if (rank.rank() == 0) {
      const Work work = rank.group.launch({.kind = OpKind::kBarrier}, both);
      store()->set("launched", "");
      work.wait();
    } else {
      (void)store()->get("launched", 20s);
      expect_error<InvalidArgument>([&] { (void)rank.group.launch({.kind = OpKind::kBarrier}, both); },
                                    {"ranks 0 and 1", "a separate stream per rank"});
      rank.group.launch({.kind = OpKind::kBarrier}, rank.stream).wait();
    }
  });
}

TEST_F(GpuRanks, MemoryOfTheHeapIsRefusedAndHurtsNothing) {
  on_gpu_ranks(2, [](const GpuRank& rank) {
    std::vector<float> heap(16);
    expect_error<InvalidArgument>(
        [&] { (void)rank.group.all_reduce(heap.data(), heap.data(), 16, DType::kF32, {}, rank.stream); },
        {"input must be memory", "can access"});
    expect_error<NotSupported>(
        [&] { (void)rank.group.launch({.kind = OpKind::kSend, .peer = 1 - rank.rank(), .in = nullptr}, rank.stream); },
        {"backend cuda does not support send"});
    rank.group.launch({.kind = OpKind::kBarrier}, rank.stream).wait();
    EXPECT_EQ(rank.group.sequence(), 1U);
  });
}

// Far ahead of the device, with operations of all sizes: the ring of cells wraps, and tasks get their numbers.
TEST_F(GpuRanks, EightRanksRunFarAheadOfTheDevice) {
  on_gpu_ranks(8, [](const GpuRank& rank) {
    const GpuBytes x(rank, std::vector<std::int64_t>(30'000, 1));
    const Work first = rank.group.launch({.kind = OpKind::kBarrier}, rank.stream);
    Work last;
    for (int i = 0; i < 1500; ++i) {
      const std::int64_t count = i % 3 == 0 ? 30'000 : i % 3 == 1 ? 100 : 0;
      last = rank.group.all_reduce(x.data(), x.data(), count, DType::kI64, {Reduction::kMin}, rank.stream);
    }
    last.wait();
    first.wait();
    EXPECT_EQ(first.sequence(), 1U);
    EXPECT_EQ(last.sequence(), 1501U);
    for (const std::int64_t value : x.read_as<std::int64_t>()) ASSERT_EQ(value, 1);
  });
}

}  // namespace tessera::comm::cuda
