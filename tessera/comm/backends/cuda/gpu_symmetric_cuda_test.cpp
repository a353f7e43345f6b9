// Symmetric memory of ranks that share a GPU: peers' pointers into device memory, and signals that kernels put and wait
// for. The next call reports failures.
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/backends/cuda/testing/gpu_ranks.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/symmetric.h"
#include "tessera/comm/world.h"
#include "tessera/device/graph.h"

namespace tessera::comm::cuda {
namespace {

using namespace std::chrono_literals;

class GpuSymmetric : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  }
};

// Returns words of GPU memory after the earlier work on the stream.
std::vector<std::uint32_t> read(const GpuRank& rank, const std::byte* from, std::size_t count) {
  std::vector<std::uint32_t> words(count);
  rank.stream.copy(words.data(), from, count * 4);
  rank.stream.synchronize(20s);
  return words;
}
void barrier(const GpuRank& rank) { rank.group.launch({.kind = OpKind::kBarrier}, rank.stream).wait(20s); }

}  // namespace

TEST_F(GpuSymmetric, PeersReachWhatWasWrittenBeforeABarrier) {
  on_gpu_ranks(4, [](const GpuRank& rank) {
    const SymmetricPool pool(rank.group, rank.stream, {.nbytes = 1 << 20});
    const SymmetricBuffer x = pool.allocate(4096);
    ASSERT_TRUE(x.is_mapped());
    for (std::uint32_t round = 0; round < 20; ++round) {
      rank.stream.fill(x.data(), 100 * round + static_cast<std::uint32_t>(rank.rank()), 4, 1024);
      pool.barrier(0, rank.stream);
      for (int peer = 0; peer < 4; ++peer) {
        for (const std::uint32_t word : read(rank, x.peer(peer), 1024)) {
          ASSERT_EQ(word, 100 * round + static_cast<std::uint32_t>(peer));
        }
      }
      pool.barrier(0, rank.stream);
    }
    rank.stream.synchronize(20s);
    barrier(rank);
  });
}

TEST_F(GpuSymmetric, AValueGoesToAndFroBehindSignals) {
  on_gpu_ranks(2, [](const GpuRank& rank) {
    const SymmetricPool pool(rank.group, rank.stream, {.nbytes = 4096, .channels = 2});
    const SymmetricBuffer x = pool.allocate(8);
    const int other = 1 - rank.rank();
    for (int round = 0; round < 101; ++round) {
      if (rank.rank() == round % 2) {
        // Passes its data on; one word identifies the round.
        rank.stream.copy(x.peer(other), x.data(), 4);
        rank.stream.fill(x.peer(other), static_cast<std::uint32_t>(round), 4, 1);
        pool.put_signal(other, 1, rank.stream);
      } else {
        pool.wait_signal(other, 1, rank.stream);
      }
    }
    EXPECT_EQ(read(rank, x.data(), 1)[0], rank.rank() == 0 ? 99U : 100U);
    barrier(rank);
  });
}

TEST_F(GpuSymmetric, SignalsAreCountedOnStreamsWithChannelsOfTheirOwn) {
  on_gpu_ranks(3, [](const GpuRank& rank) {
    const device::Stream side = rank.gpu.create_stream({.name = "side " + std::to_string(rank.rank())});
    const SymmetricPool pool(rank.group, rank.stream);
    for (int round = 0; round < 20; ++round) {
      const bool is_first = (rank.rank() + round) % 2 == 0;
      pool.barrier(is_first ? 0 : 1, is_first ? rank.stream : side);
      pool.barrier(is_first ? 1 : 0, is_first ? side : rank.stream);
    }
    const int next = (rank.rank() + 1) % 3;
    const int previous = (rank.rank() + 2) % 3;
    for (const int burst : {1, 2, 7, 30}) {
      for (int i = 0; i < burst; ++i) pool.put_signal(next, 2, rank.stream);
      for (int i = 0; i < burst; ++i) pool.wait_signal(previous, 2, rank.stream);
    }
    rank.stream.synchronize(20s);
    side.synchronize(20s);
    barrier(rank);
  });
}

TEST_F(GpuSymmetric, ReplaysOfCapturedSignalsMixWithEagerOnes) {
  on_gpu_ranks(2, [](const GpuRank& rank) {
    const SymmetricPool pool(rank.group, rank.stream, {.nbytes = 4096});
    const SymmetricBuffer x = pool.allocate(8);
    rank.stream.fill(x.data(), 0, 4, 2);
    const int other = 1 - rank.rank();
    const auto step = [&] {
      pool.barrier(0, rank.stream);
      rank.stream.fill(x.peer(other), static_cast<std::uint32_t>(7 + rank.rank()), 4, 1);
      pool.barrier(1, rank.stream);
    };
    rank.stream.begin_capture();
    step();
    const device::GraphExec graph = rank.stream.end_capture().instantiate();
    for (int i = 0; i < 30; ++i) {
      if ((i + rank.rank()) % 3 == 0) {
        graph.launch(rank.stream);
      } else {
        step();
      }
    }
    EXPECT_EQ(read(rank, x.data(), 1)[0], static_cast<std::uint32_t>(7 + other));
    barrier(rank);
  });
}

TEST_F(GpuSymmetric, ASignalThatDoesNotComeEndsTheGroupByTheDeadline) {
  on_gpu_ranks(2, [](const GpuRank& rank) {
    const SymmetricPool pool(rank.group, rank.stream, {.name = "scratch"});
    if (rank.rank() == 0) {
      pool.put_signal(1, 3, rank.stream);
      pool.put_signal(1, 3, rank.stream);
      rank.stream.synchronize(20s);
      (void)store()->get("over", 20s);
    } else {
      rank.group.set_deadline(50ms);
      for (int i = 0; i < 3; ++i) pool.wait_signal(0, 3, rank.stream);
      rank.stream.synchronize(20s);
      store()->set("over", "");
    }
    const std::initializer_list<std::string_view> words = {
        "group gpu", "scratch, wait_signal(rank 0, channel 3) of rank 1",
        "signal 3 of rank 0 did not arrive within 0.05", "(2 arrived)"};
    expect_error<TimeoutError>([&] { pool.put_signal(1 - rank.rank(), 0, rank.stream); }, words);
    expect_error<TimeoutError>([&] { barrier(rank); }, words);
  });
}

TEST_F(GpuSymmetric, APeerThatHasLeftIsNoticed) {
  on_gpu_ranks(2, [](const GpuRank& rank) {
    const SymmetricPool pool(rank.group, rank.stream);
    if (rank.rank() == 1) return;
    pool.wait_signal(1, 0, rank.stream);
    rank.stream.synchronize(20s);
    expect_error<AbortedError>([&] { pool.put_signal(0, 0, rank.stream); },
                               {"wait_signal(rank 1, channel 0)", "rank 1 has left the group"});
  });
}

TEST_F(GpuSymmetric, RanksThatAskedForOtherThingsAreToldByABarrier) {
  on_gpu_ranks(3, [](const GpuRank& rank) {
    const SymmetricPool pool(rank.group, rank.stream, {.nbytes = 4096});
    const SymmetricBuffer x = pool.allocate(rank.rank() == 1 ? 64 : 32);
    pool.barrier(0, rank.stream);
    rank.stream.synchronize(20s);
    expect_error<MismatchError>([&] { barrier(rank); },
                                {"barrier(channel 0)", "rank 1 made other pool requests than ranks 0 and 2"});
  });
}

TEST_F(GpuSymmetric, MemoryComesAtARendezvousAndIsRegistered) {
  on_gpu_ranks(2, [](const GpuRank& rank) {
    const SymmetricPool pool(rank.group, rank.stream);
    const SymmetricBuffer x = pool.allocate(1 << 16);
    EXPECT_FALSE(x.is_mapped());
    pool.rendezvous();
    ASSERT_TRUE(x.is_mapped());
    const GpuBytes own(rank, std::vector<std::uint32_t>(256, static_cast<std::uint32_t>(rank.rank() + 5)));
    const int other = 1 - rank.rank();
    for (int i = 0; i < 3; ++i) {
      const SymmetricBuffer registered = register_memory(rank.group, own.data(), own.nbytes(), rank.stream);
      EXPECT_EQ(read(rank, registered.peer(other), 256)[255], static_cast<std::uint32_t>(other + 5));
      barrier(rank);
    }
  });
}

}  // namespace tessera::comm::cuda
