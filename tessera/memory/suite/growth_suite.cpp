// Memory of heaps: mapping, moving and releasing, in expandable and in fixed segments.
#include <algorithm>

#include "tessera/memory/device_upstream.h"
#include "tessera/memory/graph_capture.h"
#include "tessera/memory/suite/memory_suite.h"

namespace tessera::memory::suite {

TEST_P(MemorySuite, TheFirstRequestMapsOneGranule) {
  const Buffer buffer = allocator.allocate(4 * kKiB, stream);
  EXPECT_EQ(reserved(), 2 * kMiB);
  EXPECT_EQ(allocator.statistics().maps, 1U);
  const Buffer beside = allocator.allocate(4 * kKiB, stream);
  EXPECT_EQ(allocator.statistics().maps, 1U);
}

TEST_P(MemorySuite, MapsInMultiplesOfTheGranuleOfThePolicy) {
  use_policy({.granule_nbytes = 4 * kMiB});
  const Buffer small = allocator.allocate(4 * kKiB, stream);
  EXPECT_EQ(reserved(), 4 * kMiB);
  const Buffer large = allocator.allocate(9 * kMiB, stream);
  EXPECT_EQ(reserved(), 16 * kMiB);
}

TEST_P(MemorySuite, MapsOnlyWhatIsMissingBesideAFreeBlock) {
  const Buffer before = allocator.allocate(2 * kMiB, stream);
  Buffer freed = allocator.allocate(4 * kMiB, stream);
  const std::byte* const address = freed.data();
  freed.reset();
  const Buffer large = allocator.allocate(10 * kMiB, stream);
  EXPECT_EQ(large.data(), address);
  EXPECT_EQ(reserved(), 12 * kMiB);
  EXPECT_EQ(allocator.statistics().moves, 0U);
}

TEST_P(MemorySuite, MapsAGapBetweenTwoFreeBlocksAndJoinsAllThree) {
  Buffer low = allocator.allocate(4 * kMiB, stream);
  Buffer middle = allocator.allocate(4 * kMiB, stream);
  Buffer high = allocator.allocate(4 * kMiB, stream);
  const std::byte* const address = low.data();
  middle.reset();
  stream.synchronize();
  EXPECT_EQ(allocator.trim(), 4 * kMiB);
  low.reset();
  high.reset();
  const Buffer whole = allocator.allocate(12 * kMiB, stream);
  EXPECT_EQ(whole.data(), address);
  EXPECT_EQ(reserved(), 12 * kMiB);
  fill(stream, whole, 4);
  EXPECT_TRUE(holds(whole, 4));
}

TEST_P(MemorySuite, MovesFreeGranulesToWhereTheyAreNeeded) {
  Buffer first = allocator.allocate(4 * kMiB, stream);
  const Buffer low = allocator.allocate(2 * kMiB, stream);
  Buffer second = allocator.allocate(4 * kMiB, stream);
  const Buffer high = allocator.allocate(2 * kMiB, stream);
  fill(stream, low, 1);
  fill(stream, high, 2);
  first.reset();
  second.reset();
  stream.synchronize();
  const std::uint64_t maps = allocator.statistics().maps;
  const Buffer large = allocator.allocate(8 * kMiB, stream);
  EXPECT_EQ(reserved(), 12 * kMiB);
  EXPECT_EQ(allocator.statistics().maps, maps);
  EXPECT_GT(allocator.statistics().moves, 0U);
  fill(stream, large, 3);
  EXPECT_TRUE(holds(low, 1));
  EXPECT_TRUE(holds(high, 2));
  EXPECT_TRUE(holds(large, 3));
}

TEST_P(MemorySuite, MovesFreeGranulesOfAnotherStream) {
  { const Buffer freed = allocator.allocate(8 * kMiB, other); }
  other.synchronize();
  const Buffer large = allocator.allocate(12 * kMiB, stream);
  EXPECT_EQ(reserved(), 12 * kMiB);
  EXPECT_GT(allocator.statistics().moves, 0U);
  fill(stream, large, 3);
  EXPECT_TRUE(holds(large, 3));
}

TEST_P(MemorySuite, MovesNothingThatAStreamHasNotCompleted) {
  const device::Hold held = hold(other);
  Buffer freed = allocator.allocate(8 * kMiB, other);
  fill(other, freed, 1);
  freed.reset();
  const Buffer large = allocator.allocate(12 * kMiB, stream);
  EXPECT_EQ(reserved(), 20 * kMiB);
  EXPECT_EQ(allocator.statistics().moves, 0U);
  held.release();  // the fill must find its memory
  other.synchronize();
  const Buffer larger = allocator.allocate(16 * kMiB, stream);
  EXPECT_EQ(reserved(), 28 * kMiB);
  EXPECT_GT(allocator.statistics().moves, 0U);
}

TEST_P(MemorySuite, MovesNothingWhileACaptureIsUnderWay) {
  { const Buffer freed = allocator.allocate(8 * kMiB, stream); }
  stream.synchronize();
  GraphCapture capture(allocator, other);
  const Buffer large = allocator.allocate(12 * kMiB, device.create_stream({.name = "third"}));
  EXPECT_EQ(reserved(), 20 * kMiB);
  EXPECT_EQ(allocator.statistics().moves, 0U);
  static_cast<void>(capture.end());
}

TEST_P(MemorySuite, AMoveThatFailsHalfWayLosesNothing) {
  Buffer first = allocator.allocate(4 * kMiB, stream);
  const Buffer between = allocator.allocate(2 * kMiB, stream);
  Buffer second = allocator.allocate(4 * kMiB, stream);
  const Buffer last = allocator.allocate(2 * kMiB, stream);
  first.reset();
  second.reset();
  stream.synchronize();
  device.faults().fail(device::DriverCall::kMap, 3);
  expect_error<DeviceError>([&] { static_cast<void>(allocator.allocate(8 * kMiB, stream)); });
  device.faults().clear();
  EXPECT_EQ(allocator.statistics().moves, 2U);
  EXPECT_EQ(reserved(), 12 * kMiB);
  EXPECT_TRUE(closes());
  const Buffer large = allocator.allocate(8 * kMiB, stream);
  EXPECT_EQ(reserved(), 12 * kMiB);
  fill(stream, large, 3);
  EXPECT_TRUE(holds(large, 3));
}

TEST_P(MemorySuite, AMapThatFailsHalfWayKeepsWhatWasMapped) {
  device.faults().fail(device::DriverCall::kMap, 3);
  expect_error<DeviceError>([&] { static_cast<void>(allocator.allocate(8 * kMiB, stream)); });
  device.faults().clear();
  EXPECT_EQ(reserved(), 4 * kMiB);
  EXPECT_TRUE(closes());
  const Buffer large = allocator.allocate(8 * kMiB, stream);
  EXPECT_EQ(reserved(), 8 * kMiB);
}

TEST_P(MemorySuite, TrimGivesBackOnlyWhatIsCompleted) {
  const device::Hold held = hold(stream);
  Buffer busy = allocator.allocate(4 * kMiB, stream);
  Buffer idle = allocator.allocate(6 * kMiB, other);
  fill(stream, busy, 1);
  fill(other, idle, 1);
  busy.reset();
  idle.reset();
  other.synchronize();
  EXPECT_EQ(allocator.trim(), 6 * kMiB);
  EXPECT_EQ(reserved(), 4 * kMiB);
  held.release();
  stream.synchronize();
  EXPECT_EQ(allocator.trim(), 4 * kMiB);
  EXPECT_EQ(reserved(), 0U);
  EXPECT_EQ(allocator.statistics().unmaps, allocator.statistics().maps);
}

TEST_P(MemorySuite, TrimKeepsAPendingBlockUntilItsUsesAreOver) {
  const device::Hold held = hold(other);
  Buffer buffer = allocator.allocate(4 * kMiB, stream);
  buffer.use_on(other);
  fill(other, buffer, 1);
  buffer.reset();
  EXPECT_EQ(allocator.trim(), 0U);
  held.release();
  other.synchronize();
  EXPECT_EQ(allocator.trim(), 4 * kMiB);
}

TEST_P(MemorySuite, TrimKeepsGranulesThatHoldALiveBlock) {
  Buffer large = allocator.allocate(8 * kMiB, stream);
  large.reset();
  const Buffer part = allocator.allocate(kMiB, stream);
  fill(stream, part, 6);
  stream.synchronize();
  EXPECT_EQ(allocator.trim(), 6 * kMiB);
  EXPECT_EQ(reserved(), 2 * kMiB);
  EXPECT_TRUE(holds(part, 6));
}

TEST_P(MemorySuite, TrimKeepsABlockThatAGraphHoldsBesideFreeMemory) {
  Buffer before = allocator.allocate(2 * kMiB, stream);
  Buffer input = allocator.allocate(2 * kMiB, stream);
  fill(stream, input, 5);
  Buffer result;
  CapturedGraph graph;
  {
    GraphCapture capture(allocator, stream);
    input.use_on(stream);
    result = allocator.allocate(2 * kMiB, stream);
    stream.copy(result.data(), input.data(), 2 * kMiB);
    graph = capture.end();
  }
  input.reset();
  before.reset();
  stream.synchronize();
  EXPECT_EQ(allocator.trim(), 2 * kMiB);
  EXPECT_EQ(allocator.statistics().now.pending_nbytes, 2 * kMiB);
  graph.replay(stream);
  EXPECT_TRUE(holds(result, 5));
}

TEST_P(MemorySuite, MemoryComesBackAfterATrim) {
  for (int round = 0; round < 3; ++round) {
    Buffer buffer = allocator.allocate(6 * kMiB, stream);
    fill(stream, buffer, static_cast<std::uint8_t>(round));
    EXPECT_TRUE(holds(buffer, static_cast<std::uint8_t>(round)));
    buffer.reset();
    stream.synchronize();
    EXPECT_EQ(allocator.trim(), 6 * kMiB);
  }
}

TEST_P(MemorySuite, SmallAndLargeRequestsLiveInSpacesOfTheirOwn) {
  Buffer small = allocator.allocate(4 * kKiB, stream);
  const Buffer large = allocator.allocate(kMiB, stream);
  EXPECT_EQ(reserved(), 4 * kMiB);
  EXPECT_EQ(allocator.snapshot().segments.size(), 2U);
  small.reset();
  std::vector<Buffer> all;
  for (int i = 0; i < 1024; ++i) all.push_back(allocator.allocate(4 * kKiB, stream));
  EXPECT_EQ(reserved(), 6 * kMiB);  // the small ones did not take the cached megabyte of the large one
  const Buffer another = allocator.allocate(kMiB, stream);
  EXPECT_EQ(reserved(), 6 * kMiB);
}

TEST_P(MemorySuite, ALargeRequestTakesFewMaps) {
  const Buffer large = allocator.allocate(64 * kMiB, stream);
  EXPECT_EQ(reserved(), 64 * kMiB);
  EXPECT_LE(allocator.statistics().maps, 8U);
}

TEST_P(MemorySuite, MapsNoPieceLargerThanThePolicyAllows) {
  use_policy({.max_piece_nbytes = 4 * kMiB});
  const Buffer large = allocator.allocate(64 * kMiB, stream);
  EXPECT_EQ(allocator.statistics().maps, 16U);
}

TEST_P(MemorySuite, FixedSegmentsHaveThreeKindsOfSize) {
  use_policy({.expandable = false});
  const Buffer small = allocator.allocate(100 * kKiB, stream);
  EXPECT_EQ(reserved(), 2 * kMiB);
  const Buffer beside = allocator.allocate(100 * kKiB, stream);
  EXPECT_EQ(reserved(), 2 * kMiB);
  const Buffer medium = allocator.allocate(kMiB + 512, stream);
  EXPECT_EQ(reserved(), 22 * kMiB);
  const Buffer shared = allocator.allocate(9 * kMiB, stream);
  EXPECT_EQ(reserved(), 22 * kMiB);
  const Buffer own = allocator.allocate(10 * kMiB + 512, stream);
  EXPECT_EQ(reserved(), 34 * kMiB);
  EXPECT_EQ(allocator.statistics().maps, 3U);
  for (const SegmentView& segment : allocator.snapshot().segments) EXPECT_FALSE(segment.is_expandable);
}

TEST_P(MemorySuite, AFixedSegmentGoesBackWholeOrNotAtAll) {
  use_policy({.expandable = false});
  Buffer low = allocator.allocate(4 * kMiB, stream);
  Buffer high = allocator.allocate(4 * kMiB, stream);
  low.reset();
  stream.synchronize();
  EXPECT_EQ(allocator.trim(), 0U);
  high.reset();
  const device::Hold held = hold(stream);
  Buffer busy = allocator.allocate(4 * kMiB, stream);
  fill(stream, busy, 1);
  busy.reset();
  EXPECT_EQ(allocator.trim(), 0U);
  held.release();
  stream.synchronize();
  EXPECT_EQ(allocator.trim(), 20 * kMiB);
  EXPECT_EQ(reserved(), 0U);
}

TEST_P(MemorySuite, FixedAndExpandableSegmentsSurviveATrimTogether) {
  const Pool fixed = allocator.create_pool({.name = "fixed", .upstream = fixed_upstream(device)});
  std::vector<Buffer> kept;
  for (std::uint8_t round = 0; round < 4; ++round) {
    std::vector<Buffer> brief;
    for (const std::size_t nbytes : {64 * kKiB, 3 * kMiB, 12 * kMiB}) {
      const PoolScope scope(fixed);
      brief.push_back(allocator.allocate(nbytes, stream));
      kept.push_back(allocator.allocate(nbytes, stream));
    }
    for (const std::size_t nbytes : {64 * kKiB, 3 * kMiB, 12 * kMiB}) {
      brief.push_back(allocator.allocate(nbytes, stream));
      kept.push_back(allocator.allocate(nbytes, stream));
    }
    for (std::size_t i = kept.size() - 6; i < kept.size(); ++i) fill(stream, kept[i], round);
    brief.clear();
    stream.synchronize();
    EXPECT_GT(allocator.trim(), 0U);
    EXPECT_TRUE(closes());
  }
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(holds(kept[i], static_cast<std::uint8_t>(i / 6)));
  for (const SegmentView& segment : allocator.snapshot().segments)
    EXPECT_EQ(segment.is_expandable, segment.pool == PoolId{});
  kept.clear();
  stream.synchronize();
  allocator.trim();
  EXPECT_EQ(reserved(), 0U);
}

TEST_P(MemorySuite, APoolTakesFreeGranulesOfTheDefaultPoolAndKeepsItsOwn) {
  { const Buffer freed = allocator.allocate(8 * kMiB, stream); }
  stream.synchronize();
  const Pool pool = allocator.create_pool({});
  {
    const PoolScope scope(pool);
    const Buffer inside = allocator.allocate(8 * kMiB, stream);
    EXPECT_EQ(reserved(), 8 * kMiB);
  }
  stream.synchronize();
  const Buffer outside = allocator.allocate(8 * kMiB, stream);
  EXPECT_EQ(reserved(), 16 * kMiB);
  EXPECT_EQ(pool.snapshot().totals().cached_nbytes, 8 * kMiB);
}

TEST_P(MemorySuite, ACallbackOnGrowthMayThrowAnythingWhenItsPoolGoes) {
  for (const bool is_expandable : {true, false}) {
    use_policy({.expandable = is_expandable});
    {
      const Pool pool = allocator.create_pool({.name = "short-lived"});
      {
        const PoolScope scope(pool);
        static_cast<void>(allocator.allocate(kMiB, stream));
      }
      stream.synchronize();
      pool.on_growth([](const Growth& growth) {
        if (!growth.is_mapped) throw 7;
      });
    }
    EXPECT_TRUE(closes());
    EXPECT_THROW(allocator.trim(), int) << "the memory is still there";
  }
}

}  // namespace tessera::memory::suite
