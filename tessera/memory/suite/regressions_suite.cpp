// Minimal cases of former bugs.
#include <cstring>

#include "tessera/memory/device_upstream.h"
#include "tessera/memory/graph_capture.h"
#include "tessera/memory/suite/memory_suite.h"

namespace tessera::memory::suite {

TEST_P(MemorySuite, StatisticsCountBlocksOfEveryState) {
  const Buffer live = allocator.allocate(kKiB, stream);
  Buffer pending = allocator.allocate(kKiB, stream);
  const Buffer between = allocator.allocate(kKiB, stream);
  Buffer cached = allocator.allocate(kKiB, stream);
  const device::Hold held = hold(other);
  pending.use_on(other);
  pending.reset();
  cached.reset();
  EXPECT_EQ(allocator.statistics().now, allocator.snapshot().totals());
  EXPECT_EQ(allocator.statistics().now.pending_blocks, 1U);
  EXPECT_EQ(allocator.statistics().now.live_blocks, 2U);
}

TEST_P(MemorySuite, ACheckedDeviceReplaysAGraphWhoseMemoryWasFreed) {
  if (!subject->checked()) GTEST_SKIP() << "no checked device";
  use_policy({}, subject->checked());
  stream = device.create_stream();
  Buffer outside = allocator.allocate(kKiB, stream);
  CapturedGraph graph;
  {
    GraphCapture capture(allocator, stream);
    Buffer scratch = allocator.allocate(kKiB, stream);
    fill(stream, scratch, 1);
    scratch.reset();
    outside.use_on(stream);
    fill(stream, outside, 2);
    graph = capture.end();
  }
  outside.reset();
  graph.replay(stream);
  stream.synchronize();
}

TEST_P(MemorySuite, GrowthBesideACachedBlockIsNotSharedByOverlappingLaunches) {
  const device::Hold held = hold(stream);
  const Stream::OverlapScope scope(stream);
  Buffer first = allocator.allocate(kMiB, stream);
  fill(stream, first, 1);
  const std::byte* const begin = first.data();
  first.reset();
  const Buffer second = allocator.allocate(8 * kMiB, stream);
  EXPECT_FALSE(second.data() < begin + kMiB && begin < second.data() + 8 * kMiB);
}

TEST_P(MemorySuite, ACaptureGoesOnAfterAnEndThatWasRefused) {
  GraphCapture capture(allocator, stream);
  join(other, stream);
  const Buffer made = allocator.allocate(kKiB, other);
  fill(other, made, 3);
  expect_error<InvalidArgument>([&] { static_cast<void>(capture.end()); }, {"joined"});
  join(stream, other);
  const CapturedGraph graph = capture.end();
  graph.replay(stream);
  EXPECT_TRUE(holds(made, 3));
}

TEST_P(MemorySuite, MemoryOfAPoolScopeInsideACaptureIsTheGraphsToo) {
  const Pool outer = allocator.create_pool({});
  Pool inner = allocator.create_pool({});
  CapturedGraph first;
  Buffer result;
  {
    GraphCapture capture(outer, stream, "first");
    const PoolScope scope(inner);
    Buffer scratch = allocator.allocate(2 * kMiB, stream);
    fill(stream, scratch, 7);
    result = allocator.allocate(2 * kMiB, stream);
    stream.copy(result.data(), scratch.data(), 2 * kMiB);
    scratch.reset();
    first = capture.end();
  }
  const std::size_t before = reserved();
  device.synchronize();
  allocator.trim();
  EXPECT_EQ(reserved(), before);  // the graph needs it
  CapturedGraph second;
  {
    GraphCapture capture(inner, stream, "second");
    Buffer scratch = allocator.allocate(2 * kMiB, stream);
    fill(stream, scratch, 8);
    second = capture.end();
  }
  inner = {};
  EXPECT_EQ(reserved(), before);  // memory that the first freed in the inner pool was available to the second
  const device::Hold held = hold(stream);
  first.replay(stream);
  expect_error<InvalidArgument>([&] { second.replay(other); }, {"first", "second"});
  held.release();
  EXPECT_TRUE(holds(result, 7));
}

TEST_P(MemorySuite, AGraphKeepsABufferThatAnotherPoolsGraphMade) {
  Buffer made;
  CapturedGraph produce;
  const Pool pool = allocator.create_pool({});
  {
    GraphCapture capture(pool, stream, "produce");
    made = allocator.allocate(kMiB, stream);
    fill(stream, made, 4);
    produce = capture.end();
  }
  produce.replay(stream);
  Buffer result = allocator.allocate(kMiB, stream);
  GraphCapture capture(allocator, stream, "consume");
  made.use_on(stream);
  result.use_on(stream);
  stream.copy(result.data(), made.data(), kMiB);
  made.reset();
  const CapturedGraph consume = capture.end();
  {
    GraphCapture overwriting(pool, stream, "overwrite");
    const Buffer scratch = allocator.allocate(kMiB, stream);
    fill(stream, scratch, 5);
    overwriting.end().replay(stream);
  }
  consume.replay(stream);
  EXPECT_TRUE(holds(result, 4));
}

TEST_P(MemorySuite, ABufferOfOnePoolFreedInACaptureIntoAnotherComesBack) {
  const Pool pool = allocator.create_pool({});
  Buffer made;
  {
    GraphCapture capture(pool, stream);
    made = allocator.allocate(kMiB, stream);
    static_cast<void>(capture.end());
  }
  {
    GraphCapture capture(allocator, stream);
    made.reset();
    static_cast<void>(capture.end());
  }
  device.synchronize();
  allocator.trim();
  EXPECT_EQ(reserved(), 0U);
}

TEST_P(MemorySuite, MemoryThatTheHostWritesWaitsForItsOwnStreamToo) {
  const Allocator pinned(device, {.upstream = pinned_upstream(device), .host_writes = true});
  const Buffer target = allocator.allocate(kKiB, stream);
  const device::Hold held = hold(stream);
  Buffer staging = pinned.allocate(kKiB, stream);
  std::memset(staging.data(), 1, kKiB);
  staging.use_on(stream);
  stream.copy(target.data(), staging.data(), kKiB);
  staging.reset();
  const Buffer next = pinned.allocate(kKiB, stream);
  std::memset(next.data(), 2, kKiB);
  held.release();
  EXPECT_TRUE(holds(target, 1));
}

TEST_P(MemorySuite, AMoveLeavesABlockBesideItAloneThatIsBeingHandedOut) {
  allocator = Allocator(device, {.policy = {.granule_nbytes = 2 * kMiB}});
  Buffer first = allocator.allocate(2 * kMiB, stream);
  fill(stream, first, 1);
  stream.synchronize();
  const Stream::OverlapScope scope(stream);  // growth avoids the cached block and moves its memory instead
  first.reset();
  const Buffer second = allocator.allocate(3 * kMiB, stream);
  const Buffer third = allocator.allocate(kMiB, stream);
  EXPECT_TRUE(third.data() >= second.data() + 3 * kMiB || third.data() + kMiB <= second.data());
}

TEST_P(MemorySuite, AnEstimateLeavesNothingBehind) {
  const Pool pool = allocator.create_pool({});
  {
    GraphCapture capture(pool, stream);
    Buffer made = allocator.allocate(3 * kMiB, stream);
    const Buffer rest = allocator.allocate(kMiB, stream);
    made.reset();
    static_cast<void>(capture.end());
  }
  device.synchronize();
  const Totals before = allocator.statistics().now;
  allocator.set_limit(before.reserved_nbytes);
  EXPECT_EQ(estimate(pool, stream, [&] { static_cast<void>(allocator.allocate(16 * kMiB, stream)); }), 16 * kMiB);
  EXPECT_EQ(allocator.statistics().now, before);
  EXPECT_EQ(allocator.snapshot().pools.size(), 2U);
  allocator.trim();
  EXPECT_EQ(reserved(), 0U);
  allocator.set_limit(2 * kMiB);
  EXPECT_TRUE(allocator.allocate(2 * kMiB, stream));
}

TEST_P(MemorySuite, ACheckedDeviceLetsARestoredBufferBeUsed) {
  if (!subject->checked()) GTEST_SKIP() << "no checked device";
  use_policy({}, subject->checked());
  stream = device.create_stream();
  const Pool pool = allocator.create_pool({});
  Buffer made;
  {
    const PoolScope scope(pool);
    made = allocator.allocate(kKiB, stream);
  }
  const PoolLayout layout = pool.checkpoint();
  made.reset();
  const std::vector<Buffer> restored = pool.restore(layout);
  ASSERT_EQ(restored.size(), 1U);
  fill(stream, restored[0], 1);
  stream.synchronize();
}

TEST_P(MemorySuite, ALentBlockIsNotRestoredWhileItsOwnStreamUsesIt) {
  const Pool pool = allocator.create_pool({});
  const PoolScope scope(pool);
  std::byte* const address = allocator.allocate(2 * kMiB, stream).data();
  join(other, stream);
  Buffer lent = allocator.allocate(2 * kMiB, other);
  ASSERT_EQ(lent.data(), address);
  const PoolLayout layout = pool.checkpoint();
  lent.reset();
  join(stream, other);
  const device::Hold held = hold(stream);
  Buffer own = allocator.allocate(2 * kMiB, stream);
  ASSERT_EQ(own.data(), address);
  fill(stream, own, 1);
  own.reset();
  expect_error<InvalidArgument>([&] { static_cast<void>(pool.restore(layout)); }, {"in use"});
  held.release();
  device.synchronize();
  EXPECT_EQ(pool.restore(layout).size(), 1U);
}

TEST_P(MemorySuite, AWaitThatADroppedCaptureTookOverIsTheNextGraphs) {
  const Pool pool = allocator.create_pool({});
  Buffer made;
  {
    GraphCapture capture(pool, stream);
    made = allocator.allocate(2 * kMiB, stream);
    static_cast<void>(capture.end());
  }
  stream.synchronize();
  join(other, stream);
  const Buffer target = allocator.allocate(2 * kMiB, other);
  made.use_on(other);
  fill(other, made, 1);
  const Stream third = device.create_stream();  // keeps the copy from running without making `other` a spinning stream
  const device::Hold held = hold(third);
  join(other, third);
  other.copy(target.data(), made.data(), 2 * kMiB);
  made.reset();
  {
    GraphCapture dropped(pool, stream);
    static_cast<void>(allocator.allocate(2 * kMiB, stream));
  }
  GraphCapture capture(pool, stream);
  const Buffer next = allocator.allocate(2 * kMiB, stream);
  fill(stream, next, 2);
  const CapturedGraph graph = capture.end();
  EXPECT_EQ(pool.snapshot().totals().reserved_nbytes, 2 * kMiB);
  graph.replay(stream);
  fill(stream, next, 3);
  held.release();
  EXPECT_TRUE(holds(target, 1));
  EXPECT_TRUE(holds(next, 3));
}

TEST_P(MemorySuite, EagerWorkOnWhatACaptureWasGivenComesAfterEarlierUses) {
  const Pool pool = allocator.create_pool({});
  Buffer made;
  {
    GraphCapture capture(pool, stream);
    made = allocator.allocate(2 * kMiB, stream);
    static_cast<void>(capture.end());
  }
  stream.synchronize();
  const Buffer target = allocator.allocate(2 * kMiB, other);
  made.use_on(other);
  fill(other, made, 1);
  const Stream third = device.create_stream();
  const device::Hold held = hold(third);
  join(other, third);
  other.copy(target.data(), made.data(), 2 * kMiB);
  made.reset();
  GraphCapture capture(pool, stream);
  const Buffer next = allocator.allocate(2 * kMiB, stream);
  const CapturedGraph graph = capture.end();
  fill(stream, next, 2);
  held.release();
  EXPECT_TRUE(holds(target, 1));
}

TEST_P(MemorySuite, AGraphComesAfterEagerWorkOnWhatWasFreedInItsCapture) {
  const Pool pool = allocator.create_pool({});
  Buffer made;
  {
    GraphCapture capture(pool, stream);
    made = allocator.allocate(2 * kMiB, stream);
    static_cast<void>(capture.end());
  }
  const Buffer target = allocator.allocate(2 * kMiB, stream);
  fill(stream, made, 1);
  const Stream third = device.create_stream();
  const device::Hold held = hold(third);
  join(stream, third);
  stream.copy(target.data(), made.data(), 2 * kMiB);
  GraphCapture capture(pool, stream);
  made.reset();
  const Buffer next = allocator.allocate(2 * kMiB, stream);
  fill(stream, next, 2);
  const CapturedGraph graph = capture.end();
  EXPECT_EQ(pool.snapshot().totals().reserved_nbytes, 2 * kMiB);
  graph.replay(other);
  held.release();
  EXPECT_TRUE(holds(target, 1));
  EXPECT_TRUE(holds(next, 2));
}

TEST_P(MemorySuite, WhatAGraphReadsOfADroppedCaptureIsItsInputToo) {
  const Pool pool = allocator.create_pool({});
  Buffer made;
  {
    GraphCapture dropped(pool, stream);
    made = allocator.allocate(2 * kMiB, stream);
  }
  fill(stream, made, 1);
  const Buffer target = allocator.allocate(2 * kMiB, stream);
  CapturedGraph reader;
  {
    GraphCapture capture(pool, stream, "reader");
    made.use_on(stream);
    target.use_on(stream);
    stream.copy(target.data(), made.data(), 2 * kMiB);
    reader = capture.end();
  }
  stream.synchronize();
  std::byte* const address = made.data();
  made.reset();
  GraphCapture capture(pool, stream, "writer");
  const Buffer next = allocator.allocate(2 * kMiB, stream);
  ASSERT_EQ(next.data(), address);
  fill(stream, next, 2);
  const CapturedGraph writer = capture.end();
  const device::Hold held = hold(stream);
  reader.replay(stream);
  expect_error<InvalidArgument>([&] { writer.replay(other); }, {"'writer'", "'reader'", "may still run"});
  held.release();
  EXPECT_TRUE(holds(target, 1));
  writer.replay(other);
  EXPECT_TRUE(holds(next, 2));
  expect_error<InvalidArgument>([&] { reader.replay(stream); }, {"no graph wrote", "'writer' has overwritten"});
}

TEST_P(MemorySuite, AGraphReadsWhatACaptureThatEndsLaterWrites) {
  const Pool pool = allocator.create_pool({});
  const Buffer target = allocator.allocate(kMiB, other);
  GraphCapture outer(pool, stream, "outer");
  const Buffer made = allocator.allocate(kMiB, stream);
  fill(stream, made, 1);
  CapturedGraph reader;
  {
    GraphCapture inner(pool, other, "inner");
    made.use_on(other);
    target.use_on(other);
    other.copy(target.data(), made.data(), kMiB);
    reader = inner.end();
  }
  expect_error<InvalidArgument>([&] { reader.replay(other); }, {"replay graph 'outer' first"});
  const CapturedGraph writer = outer.end();
  expect_error<InvalidArgument>([&] { reader.replay(other); }, {"replay graph 'outer' first"});
  const device::Hold held = hold(stream);
  writer.replay(stream);
  expect_error<InvalidArgument>([&] { reader.replay(other); }, {"'outer'", "may still run"});
  held.release();
  join(other, stream);
  reader.replay(other);
  EXPECT_TRUE(holds(target, 1));
}

TEST_P(MemorySuite, WhatTwoCapturesUsedIsFreeWhenBothHaveEnded) {
  const Pool pool = allocator.create_pool({});
  const Stream third = device.create_stream();
  const Buffer target = allocator.allocate(2 * kMiB, other);
  auto first = std::make_unique<GraphCapture>(pool, stream, "first");
  Buffer made = allocator.allocate(2 * kMiB, stream);
  const std::byte* const address = made.data();
  GraphCapture second(pool, other, "second");
  join(third, other);
  made.use_on(other);
  target.use_on(other);
  other.copy(target.data(), made.data(), 2 * kMiB);
  made.reset();
  first.reset();
  EXPECT_NE(allocator.allocate(2 * kMiB, third).data(), address);
  join(other, third);
  static_cast<void>(second.end());
  device.synchronize();
  GraphCapture later(pool, stream, "later");
  const Buffer one = allocator.allocate(2 * kMiB, stream);
  const Buffer two = allocator.allocate(2 * kMiB, stream);
  EXPECT_TRUE(one.data() == address || two.data() == address);
}

TEST_P(MemorySuite, ACaptureDoesNotReuseWhatAnotherGraphReads) {
  const Pool pool = allocator.create_pool({});
  const Buffer target = allocator.allocate(2 * kMiB, other);
  GraphCapture capture(pool, stream, "writer");
  Buffer made = allocator.allocate(2 * kMiB, stream);
  fill(stream, made, 1);
  CapturedGraph reader;
  {
    GraphCapture inner(pool, other, "reader");
    made.use_on(other);
    target.use_on(other);
    other.copy(target.data(), made.data(), 2 * kMiB);
    reader = inner.end();
  }
  join(other, stream);
  join(stream, other);
  made.reset();
  const Buffer next = allocator.allocate(2 * kMiB, stream);
  fill(stream, next, 2);
  const CapturedGraph writer = capture.end();
  writer.replay(stream);
  reader.replay(stream);
  EXPECT_TRUE(holds(target, 1));
}

TEST_P(MemorySuite, AGraphKeepsABufferWhoseAllocatorIsGone) {
  Allocator gone(device);
  Buffer source = gone.allocate(kMiB, stream);
  fill(stream, source, 6);
  const Buffer target = allocator.allocate(kMiB, stream);
  GraphCapture capture(allocator, stream);
  source.use_on(stream);
  target.use_on(stream);
  stream.copy(target.data(), source.data(), kMiB);
  const CapturedGraph graph = capture.end();
  source.reset();
  gone = {};
  graph.replay(stream);
  EXPECT_TRUE(holds(target, 6));
}

TEST_P(MemorySuite, ACallbackOnGrowthThatThrowsLosesNoMemory) {
  for (const bool is_expandable : {true, false}) {
    use_policy({.expandable = is_expandable});
    const std::uint64_t listener = allocator.default_pool().on_growth([](const Growth&) {
      throw InvalidArgument({__FILE__, __LINE__}, "no");
    });
    expect_error<InvalidArgument>([&] { static_cast<void>(allocator.allocate(kMiB, stream)); }, {"no"});
    EXPECT_TRUE(closes());
    allocator.default_pool().off_growth(listener);
    static_cast<void>(allocator.allocate(kMiB, stream));
    stream.synchronize();
    allocator.trim();
    EXPECT_EQ(reserved(), 0U);
  }
}

TEST_P(MemorySuite, AFailedTrimIsTakenBackBeforeThoseWhoListen) {
  for (const bool is_expandable : {true, false}) {
    use_policy({.expandable = is_expandable});
    std::int64_t known = 0;
    allocator.default_pool().on_growth([&](const Growth& growth) {
      known += growth.is_mapped ? static_cast<std::int64_t>(growth.nbytes) : -static_cast<std::int64_t>(growth.nbytes);
    });
    static_cast<void>(allocator.allocate(kMiB, stream));
    stream.synchronize();
    device.faults().fail(device::DriverCall::kUnmap, 1);
    expect_error<DeviceError>([&] { allocator.trim(); });
    device.faults().clear();
    EXPECT_EQ(known, static_cast<std::int64_t>(reserved()));
  }
}

TEST_P(MemorySuite, PiecesMovedBeforeAMoveFailedAreNotLost) {
  static_cast<void>(allocator.allocate(8 * kMiB, stream));
  device.synchronize();
  device.faults().fail(device::DriverCall::kMap, 3);
  expect_error<DeviceError>([&] { static_cast<void>(allocator.allocate(10 * kMiB, other)); });
  device.faults().clear();
  EXPECT_TRUE(closes());
  EXPECT_EQ(reserved(), 8 * kMiB);
}

}  // namespace tessera::memory::suite
