#include "tessera/memory/detail/live_peak.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "tessera/device/host/host_device.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/detail/allocator_state.h"
#include "tessera/memory/testing/random_numbers.h"

namespace tessera::memory::detail {
namespace {

using device::Stream;

constexpr std::size_t kKiB = 1024;

class LivePeakTest : public ::testing::Test {
 protected:
  std::vector<Stream> make_streams(int count) {
    std::vector<Stream> streams;
    for (int i = 0; i < count; ++i) streams.push_back(device.create_stream());
    return streams;
  }
  [[nodiscard]] std::uint64_t shared_changes() const { return allocator.state()->live_peak.shared_changes(); }
  [[nodiscard]] std::uint64_t peak() const { return allocator.statistics().peak_live_nbytes; }

  device::Device device = device::host::make_host_device({.capacity_nbytes = std::size_t{4} << 30});
  Allocator allocator{device};
};

// Replaces one of `count` blocks of each stream in turn. A free may release more than 1/64 of the live bytes.
void replace_blocks(const Allocator& allocator, const std::vector<Stream>& streams,
                    std::vector<std::vector<Buffer>>& live, std::size_t nbytes, int turns) {
  for (int turn = 0; turn < turns; ++turn) {
    for (std::size_t i = 0; i < streams.size(); ++i) {
      Buffer& one = live[i][static_cast<std::size_t>(turn) % live[i].size()];
      one.reset();
      one = allocator.allocate(nbytes, streams[i]);
    }
  }
}

// The pools list the default pool first, and the peak lists its heap last.
TEST_F(LivePeakTest, CountsWhileAnotherThreadTakesSnapshots) {
  const Stream stream = device.create_stream();
  const Pool pool = allocator.create_pool({.name = "first"});
  Buffer in_pool;
  {
    const PoolScope scope(pool);
    in_pool = allocator.allocate(64 * kKiB, stream);
  }
  const Buffer in_default = allocator.allocate(64 * kKiB, stream);
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    while (!is_over.load()) static_cast<void>(allocator.snapshot());
  });
  for (int i = 0; i < 5000; ++i) {
    allocator.reset_peaks();
    static_cast<void>(allocator.allocate(64 * kKiB, stream));  // counts, because the peak equals the live bytes
  }
  is_over.store(true);
  other.join();
  EXPECT_GE(peak(), 192 * kKiB);
}

TEST_F(LivePeakTest, StreamsThatRepeatTheirStepsShareNoCounter) {
  for (const int count : {2, 8, 64}) {
    const std::vector<Stream> streams = make_streams(16);
    std::vector<std::vector<Buffer>> live(streams.size());
    for (std::size_t i = 0; i < streams.size(); ++i) {
      for (int j = 0; j < count; ++j) live[i].push_back(allocator.allocate(64 * kKiB, streams[i]));
    }
    replace_blocks(allocator, streams, live, 64 * kKiB, 2 * count);
    const std::uint64_t before = shared_changes();
    replace_blocks(allocator, streams, live, 64 * kKiB, 1000);
    EXPECT_EQ(shared_changes(), before) << count << " blocks a stream";
  }
}

TEST_F(LivePeakTest, AHeapThatGrowsCountsRarely) {
  const std::vector<Stream> streams = make_streams(2);
  std::vector<Buffer> live;
  for (int i = 0; i < 20000; ++i)
    live.push_back(allocator.allocate(4 * kKiB, streams[static_cast<std::size_t>(i) % 2]));
  EXPECT_LT(shared_changes(), 5000U);
}

TEST_F(LivePeakTest, ThePeakIsNeverTooLowAndAtMostByItsExcessTooHigh) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    testing::RandomNumbers random(seed);
    const auto streams = make_streams(1 + random.below(6));
    const int largest = seed % 2 == 0 ? 1 << 20 : 1 << 13;
    const auto any = [&](std::size_t size) { return static_cast<std::size_t>(random.below(static_cast<int>(size))); };
    std::vector<Buffer> live;
    std::size_t now = 0;
    allocator.reset_peaks();
    std::size_t most = 0;
    for (int step = 0; step < 3000; ++step) {
      if (!live.empty() && random.below(5) < 2) {
        std::swap(live[any(live.size())], live.back());
        now -= live.back().nbytes();
        live.pop_back();
      } else if (random.below(200) == 0) {
        live.clear();
        now = 0;
      } else {
        live.push_back(
            allocator.allocate(static_cast<std::size_t>(1 + random.below(largest)), streams[any(streams.size())]));
        now += live.back().nbytes();
      }
      most = std::max(most, now);
      ASSERT_GE(peak(), most) << "seed " << seed << ", step " << step;
      ASSERT_LE(peak(), most + LivePeak::excess(most, 6 * seed)) << "seed " << seed << ", step " << step;
    }
  }
}

TEST_F(LivePeakTest, ThreadsOfOneStreamAndOfSeveralAgreeOnThePeak) {
  const std::vector<Stream> streams = make_streams(4);
  constexpr int kThreads = 8;
  constexpr std::size_t kEach = 100 * 64 * kKiB;
  std::vector<std::vector<Buffer>> held(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < 20; ++turn) {
        held[i].clear();
        for (int j = 0; j < 100; ++j) held[i].push_back(allocator.allocate(64 * kKiB, streams[i % streams.size()]));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(peak(), kThreads * kEach);
  EXPECT_LE(peak(), kThreads * kEach + LivePeak::excess(kThreads * kEach, streams.size()));
}

}  // namespace
}  // namespace tessera::memory::detail
