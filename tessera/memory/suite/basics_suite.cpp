// Sizes, splitting, merging, the identity, and buffers that outlive their allocator, stream or graph.
#include <random>
#include <thread>

#include "tessera/memory/label.h"
#include "tessera/memory/suite/memory_suite.h"

namespace tessera::memory::suite {

TEST_P(MemorySuite, GivesAlignedMemoryOfTheSizeAskedFor) {
  for (const std::size_t nbytes : {1UL, 511UL, 512UL, 513UL, 100000UL, 3 * kMiB + 1}) {
    const Buffer buffer = allocator.allocate(nbytes, stream);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % kAlignment, 0U);
    EXPECT_EQ(buffer.nbytes(), nbytes);
    EXPECT_GE(buffer.usable_nbytes(), nbytes);
    EXPECT_LT(buffer.usable_nbytes(), nbytes + kAlignment);
    EXPECT_EQ(buffer.stream(), stream.id());
    fill(stream, buffer, 7);
    EXPECT_TRUE(holds(buffer, 7));
  }
}

TEST_P(MemorySuite, GivesNothingForNothing) {
  const Buffer buffer = allocator.allocate(0, stream);
  EXPECT_FALSE(buffer);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(allocator.statistics().now.reserved_nbytes, 0U);
}

TEST_P(MemorySuite, RefusesAnAbsurdSizeInOneLine) {
  expect_error<OutOfMemory>([&] { static_cast<void>(allocator.allocate(~std::size_t{0} - 5, stream)); },
                            {"nbytes must be at most 1 EiB, got "});
  EXPECT_TRUE(allocator.allocate(512, stream));
}

TEST_P(MemorySuite, RefusesAStreamOfAnotherDevice) {
  const Device host = Device::get("host");
  if (host == device) GTEST_SKIP() << "there is one device only";
  expect_error<InvalidArgument>([&] { static_cast<void>(allocator.allocate(512, host.default_stream())); },
                                {" on host; use Allocator::of"});
}

TEST_P(MemorySuite, CountsWhatIsLiveToTheByte) {
  const Buffer one = allocator.allocate(1024, stream);
  EXPECT_EQ(allocator.statistics().now.live_nbytes, 1024U);
  Buffer two = allocator.allocate(1000, stream);
  const Statistics both = allocator.statistics();
  EXPECT_EQ(both.now.live_nbytes, 2024U);
  EXPECT_EQ(both.now.rounding_nbytes, 24U);
  EXPECT_EQ(both.now.live_blocks, 2U);
  EXPECT_EQ(both.allocations, 2U);
  two.reset();
  const Statistics after = allocator.statistics();
  EXPECT_EQ(after.now.live_nbytes, 1024U);
  EXPECT_EQ(after.frees, 1U);
  EXPECT_EQ(after.peak_live_nbytes, 2024U);
  allocator.reset_peaks();
  EXPECT_EQ(allocator.statistics().peak_live_nbytes, 1024U);
  EXPECT_EQ(allocator.statistics().peak_reserved_nbytes, after.now.reserved_nbytes);
}

TEST_P(MemorySuite, ReusesAFreedBlockOnItsOwnStreamAtOnce) {
  Buffer first = allocator.allocate(100 * kKiB, stream);
  const std::byte* address = first.data();
  fill(stream, first, 1);
  first.reset();
  const Buffer second = allocator.allocate(100 * kKiB, stream);
  EXPECT_EQ(second.data(), address);
}

TEST_P(MemorySuite, SplitsABlockAndMergesItsPartsAgain) {
  Buffer whole = allocator.allocate(256 * kKiB - 512, stream);
  const std::byte* address = whole.data();
  whole.reset();
  Buffer low = allocator.allocate(64 * kKiB, stream);
  Buffer middle = allocator.allocate(64 * kKiB, stream);
  Buffer high = allocator.allocate(64 * kKiB, stream);
  EXPECT_EQ(low.data(), address);
  EXPECT_EQ(middle.data(), address + 64 * kKiB);
  low.reset();
  high.reset();
  middle.reset();
  EXPECT_EQ(allocator.allocate(256 * kKiB - 512, stream).data(), address);
  EXPECT_EQ(allocator.statistics().maps, 1U);
}

TEST_P(MemorySuite, TakesTheBestFittingBlock) {
  std::vector<Buffer> live;
  for (const std::size_t size : {40, 8, 24, 8, 16, 8, 32, 8}) live.push_back(allocator.allocate(size * kKiB, stream));
  const std::byte* fit = live[4].data();
  for (const int index : {0, 2, 4, 6}) live[static_cast<std::size_t>(index)].reset();
  EXPECT_EQ(allocator.allocate(15 * kKiB, stream).data(), fit);
}

TEST_P(MemorySuite, KeepsContentsThroughManyRandomSteps) {
  std::mt19937 random(17);
  std::vector<std::pair<Buffer, std::uint8_t>> live;
  for (int step = 0; step < 400; ++step) {
    if (live.size() > 20 || (!live.empty() && random() % 3 == 0)) {
      const std::size_t at = random() % live.size();
      std::swap(live[at], live.back());
      live.pop_back();
    } else {
      const std::size_t nbytes = std::size_t{1} << (random() % 20);
      const auto value = static_cast<std::uint8_t>(random());
      live.emplace_back(allocator.allocate(nbytes, stream), value);
      fill(stream, live.back().first, value);
    }
    if (step % 100 == 99) allocator.trim();
  }
  for (const auto& [buffer, value] : live) ASSERT_TRUE(holds(buffer, value));
}

TEST_P(MemorySuite, RoundsSizesToStepsBetweenPowersOfTwo) {
  use_policy({.roundup_divisions = 4});
  EXPECT_EQ(allocator.allocate(1200, stream).usable_nbytes(), 1536U);  // below 4 * 512: multiples of 512
  EXPECT_EQ(allocator.allocate(4500, stream).usable_nbytes(), 5120U);
  EXPECT_EQ(allocator.allocate(5 * kMiB, stream).usable_nbytes(), 5 * kMiB);
  EXPECT_EQ(allocator.allocate(5 * kMiB + 1, stream).usable_nbytes(), 6 * kMiB);
  EXPECT_EQ(allocator.allocate(8 * kMiB, stream).usable_nbytes(), 8 * kMiB);
}

TEST_P(MemorySuite, ABufferOutlivesTheAllocatorsHandle) {
  Buffer buffer = allocator.allocate(4096, stream);
  fill(stream, buffer, 9);
  allocator = Allocator(device);
  EXPECT_TRUE(holds(buffer, 9));
  buffer.reset();
}

TEST_P(MemorySuite, FreesOnAnotherThreadThanItAllocated) {
  Buffer buffer = allocator.allocate(4096, stream);
  const std::byte* address = buffer.data();
  subject->run_together({[moved = std::make_shared<Buffer>(std::move(buffer))] { moved->reset(); }});
  EXPECT_EQ(allocator.allocate(4096, stream).data(), address);
}

TEST_P(MemorySuite, ShowsTheLabelOfALiveBlock) {
  Buffer inner;
  const Label outer("model");
  {
    const Label label("optimizer");
    inner = allocator.allocate(1000, stream);
  }
  const Buffer after = allocator.allocate(2000, stream);
  std::vector<std::string> labels;
  for (const SegmentView& segment : allocator.snapshot().segments) {
    for (const BlockView& block : segment.blocks) {
      if (block.state == BlockState::kLive) labels.push_back(block.label);
    }
  }
  EXPECT_EQ(labels, (std::vector<std::string>{"optimizer", "model"}));
}

TEST_P(MemorySuite, ADestroyedStreamStrandsNothing) {
  Stream brief = device.create_stream({.name = "brief"});
  Buffer held = allocator.allocate(10 * kMiB, brief);
  Buffer freed = allocator.allocate(10 * kMiB, brief);
  fill(brief, freed, 1);
  freed.reset();
  brief.synchronize();
  brief.reset();
  held.reset();  // after its stream is gone
  const std::size_t before = reserved();
  const Buffer taken = allocator.allocate(20 * kMiB, stream);
  EXPECT_EQ(reserved(), before);
  EXPECT_TRUE(taken);
}

}  // namespace tessera::memory::suite
