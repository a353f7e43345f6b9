// Host memory that the device reads in place: the host writes a block immediately after its allocation, so a block is
// reused only when its uses have completed, not merely if they are ordered before.
#include <cstring>

#include "tessera/base/rank.h"
#include "tessera/memory/device_upstream.h"
#include "tessera/memory/graph_capture.h"
#include "tessera/memory/suite/memory_suite.h"

namespace tessera::memory::suite {

namespace {

// A separate segment, so that nothing is cached next to it.
constexpr std::size_t kStaging = 10 * kMiB;

// As Allocator::pinned_of returns it, but empty.
Allocator fresh_pinned(const Device& device) {
  return Allocator(device, {.upstream = pinned_upstream(device), .host_writes = true});
}

// A graph that copies staging memory to a separate buffer, `result`.
CapturedGraph capture_copy(GraphCapture&& capture, const Allocator& allocator, const Stream& stream,
                           const Buffer& staging, Buffer& result) {
  result = allocator.allocate(kStaging, stream);
  staging.use_on(stream);
  stream.copy(result.data(), staging.data(), kStaging);
  return capture.end();
}

}  // namespace

TEST_P(MemorySuite, TheHostWritesPinnedMemoryAndTheDeviceReadsIt) {
  // A rank keeps its allocators, and with them the device: here one that ends with the case.
  const RankScope rank(std::make_shared<RankContext>(RankPlace{}));
  const Allocator pinned = Allocator::pinned_of(device);
  EXPECT_TRUE(pinned == Allocator::pinned_of(device));
  EXPECT_FALSE(pinned == Allocator::of(device));
  const Buffer staging = pinned.allocate(64 * kKiB, stream);
  std::memset(staging.data(), 9, staging.nbytes());
  const Buffer result = allocator.allocate(64 * kKiB, stream);
  staging.use_on(stream);
  stream.copy(result.data(), staging.data(), staging.nbytes());
  EXPECT_TRUE(holds(result, 9));
}

TEST_P(MemorySuite, AnUnusedPinnedBlockComesBackAtOnce) {
  const Allocator pinned = fresh_pinned(device);
  const device::Hold held = hold(stream);
  Buffer staging = pinned.allocate(kStaging, stream);
  const std::byte* const address = staging.data();
  staging.reset();
  EXPECT_EQ(pinned.allocate(kStaging, stream).data(), address);
  held.release();
}

TEST_P(MemorySuite, AUsedPinnedBlockComesBackOnlyWhenTheUseHasCompleted) {
  const Allocator pinned = fresh_pinned(device);
  const Buffer result = allocator.allocate(kStaging, stream);
  const device::Hold held = hold(stream);
  Buffer staging = pinned.allocate(kStaging, stream);
  const std::byte* const address = staging.data();
  std::memset(staging.data(), 3, kStaging);
  staging.use_on(stream);  // also its own stream: that the copy is ordered before does not help the host
  stream.copy(result.data(), staging.data(), kStaging);
  staging.reset();
  Buffer another = pinned.allocate(kStaging, stream);
  EXPECT_NE(another.data(), address);
  std::memset(another.data(), 4, kStaging);
  EXPECT_EQ(pinned.statistics().now.pending_nbytes, kStaging);
  held.release();
  EXPECT_TRUE(holds(result, 3));
  EXPECT_EQ(pinned.allocate(kStaging, stream).data(), address);
}

TEST_P(MemorySuite, AnOrderedStreamDoesNotGetAPinnedBlockEarly) {
  const Allocator pinned = fresh_pinned(device);
  const device::Hold held = hold(stream);
  Buffer staging = pinned.allocate(kStaging, other);
  const std::byte* const address = staging.data();
  const Buffer result = allocator.allocate(kStaging, stream);
  staging.use_on(stream);
  stream.copy(result.data(), staging.data(), kStaging);
  staging.reset();
  join(other, stream);
  EXPECT_NE(pinned.allocate(kStaging, other).data(), address);
  held.release();
}

TEST_P(MemorySuite, ACompletedPinnedBlockIsFoundWithoutWaitingForItsStream) {
  const Allocator pinned = fresh_pinned(device);
  const Buffer result = allocator.allocate(kStaging, stream);
  Buffer staging = pinned.allocate(kStaging, stream);
  const std::byte* const address = staging.data();
  staging.use_on(stream);
  stream.copy(result.data(), staging.data(), kStaging);
  staging.reset();
  join(other, stream);
  other.synchronize();                     // the work on the stream is over, but the stream has not been queried
  const device::Hold held = hold(stream);  // now it is busy with other work
  EXPECT_EQ(pinned.allocate(kStaging, stream).data(), address);
  EXPECT_EQ(pinned.statistics().now.pending_nbytes, 0U);
  held.release();
}

TEST_P(MemorySuite, APinnedBlockThatNobodyUsesServesEveryStream) {
  const Allocator pinned = fresh_pinned(device);
  const device::Hold held = hold(stream);
  Buffer staging = pinned.allocate(kStaging, stream);
  const std::byte* const address = staging.data();
  staging.reset();
  Buffer lent = pinned.allocate(kStaging, other);
  EXPECT_EQ(lent.data(), address);
  lent.reset();
  EXPECT_EQ(pinned.allocate(kStaging, stream).data(), address);
  held.release();
}

TEST_P(MemorySuite, StagingInALoopTakesNoMoreThanWhatIsInFlight) {
  const Allocator pinned = fresh_pinned(device);
  const Buffer result = allocator.allocate(kStaging, stream);
  for (int i = 0; i < 20; ++i) {
    const Buffer staging = pinned.allocate(kStaging, stream);
    std::memset(staging.data(), i, kStaging);
    staging.use_on(stream);
    stream.copy(result.data(), staging.data(), kStaging);
    join(other, stream);
    other.synchronize();
  }
  EXPECT_LE(pinned.statistics().now.reserved_nbytes, 2 * kStaging);
  EXPECT_TRUE(holds(result, 19));
}

TEST_P(MemorySuite, APinnedBlockUsedByACapturedCopyIsKeptWhileTheGraphLives) {
  const Allocator pinned = fresh_pinned(device);
  const Pool pool = allocator.create_pool({});
  Buffer used = pinned.allocate(kStaging, stream);
  Buffer unused = pinned.allocate(kStaging, stream);
  const std::byte* const used_at = used.data();
  const std::byte* const unused_at = unused.data();
  std::memset(used.data(), 7, kStaging);
  Buffer result;
  CapturedGraph graph = capture_copy(GraphCapture(pool, stream), allocator, stream, used, result);
  used.reset();
  unused.reset();
  EXPECT_EQ(pinned.statistics().now.pending_nbytes, kStaging);
  {
    const Buffer first = pinned.allocate(kStaging, stream);
    EXPECT_EQ(first.data(), unused_at);
    const Buffer second = pinned.allocate(kStaging, stream);
    EXPECT_NE(second.data(), used_at);
    std::memset(first.data(), 1, kStaging);
    std::memset(second.data(), 2, kStaging);
    graph.replay(stream);
    EXPECT_TRUE(holds(result, 7));
  }
  graph = {};
  EXPECT_EQ(pinned.trim(), 3 * kStaging);
}

TEST_P(MemorySuite, APinnedBlockOfACaptureComesFromNoGraphsPool) {
  const Allocator pinned = fresh_pinned(device);
  Buffer result;
  Buffer staging;
  CapturedGraph graph;
  {
    GraphCapture capture(allocator, stream);
    result = allocator.allocate(kStaging, stream);
    Buffer unused = pinned.allocate(kStaging, stream);
    const std::byte* const address = unused.data();
    unused.reset();
    staging = pinned.allocate(kStaging, stream);
    EXPECT_EQ(staging.data(), address);
    staging.use_on(stream);
    stream.copy(result.data(), staging.data(), kStaging);
    graph = capture.end();
  }
  for (const std::uint8_t value : {5, 6}) {
    std::memset(staging.data(), value, kStaging);  // the copy reads it at each replay
    graph.replay(stream);
    EXPECT_TRUE(holds(result, value));
  }
}

TEST_P(MemorySuite, APinnedBlockOfTwoGraphsWaitsForBoth) {
  const Allocator pinned = fresh_pinned(device);
  const Pool pool = allocator.create_pool({});
  Buffer staging = pinned.allocate(kStaging, stream);
  const std::byte* const address = staging.data();
  const auto capture_it = [&] {
    GraphCapture capture(pool, stream);
    const Buffer scratch = allocator.allocate(kStaging, stream);
    staging.use_on(stream);
    stream.copy(scratch.data(), staging.data(), kStaging);
    return capture.end();
  };
  CapturedGraph first = capture_it();
  CapturedGraph second = capture_it();
  staging.reset();
  first = {};
  EXPECT_NE(pinned.allocate(kStaging, stream).data(), address);
  second.replay(stream);
  EXPECT_NE(pinned.allocate(kStaging, stream).data(), address);
  EXPECT_EQ(pinned.statistics().now.pending_nbytes, kStaging);
  second = {};
  stream.synchronize();
  EXPECT_EQ(pinned.trim(), 2 * kStaging);
  EXPECT_EQ(pinned.statistics().now.reserved_nbytes, 0U);
}

TEST_P(MemorySuite, ARunningReplayKeepsThePinnedBlockOfAGraphThatIsGone) {
  const Allocator pinned = fresh_pinned(device);
  Buffer staging = pinned.allocate(kStaging, stream);
  const std::byte* const address = staging.data();
  CapturedGraph graph;
  {
    GraphCapture capture(allocator, stream);
    const Buffer scratch = allocator.allocate(kStaging, stream);
    staging.use_on(stream);
    stream.copy(scratch.data(), staging.data(), kStaging);
    graph = capture.end();
  }
  const device::Hold held = hold(other);
  graph.replay(other);
  staging.reset();
  graph = {};
  Buffer elsewhere = pinned.allocate(kStaging, stream);
  EXPECT_NE(elsewhere.data(), address);
  held.release();
  other.synchronize();
  EXPECT_EQ(pinned.allocate(kStaging, stream).data(), address);
}

TEST_P(MemorySuite, BlocksOutliveAPinnedAllocatorWhileAGraphKeepsOne) {
  Allocator pinned = fresh_pinned(device);
  Buffer kept = pinned.allocate(kStaging, stream);
  Buffer live = pinned.allocate(kStaging, stream);
  Buffer result;
  CapturedGraph graph = capture_copy(GraphCapture(allocator, stream), allocator, stream, kept, result);
  std::memset(kept.data(), 8, kStaging);
  kept.reset();
  pinned = {};
  graph.replay(stream);
  EXPECT_TRUE(holds(result, 8));
  graph = {};
  std::memset(live.data(), 1, kStaging);
  live.reset();
}

TEST_P(MemorySuite, AGraphKeepsAPinnedBlockOfAnAllocatorThatIsGone) {
  Allocator pinned = fresh_pinned(device);
  Buffer kept = pinned.allocate(kStaging, stream);
  Buffer result;
  CapturedGraph graph = capture_copy(GraphCapture(allocator, stream), allocator, stream, kept, result);
  std::memset(kept.data(), 8, kStaging);
  kept.reset();
  pinned = {};  // without live blocks
  graph.replay(stream);
  EXPECT_TRUE(holds(result, 8));
}

}  // namespace tessera::memory::suite
