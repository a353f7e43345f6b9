// Memory that several streams use: reuse of freed blocks. Streams are held so that nothing completes: reuse depends on
// order alone.
#include "tessera/memory/suite/memory_suite.h"

namespace tessera::memory::suite {

TEST_P(MemorySuite, KeepsABlockFromAnotherStreamThatIsNotOrderedAfterIt) {
  hold(stream);
  Buffer buffer = allocator.allocate(4 * kMiB, stream);
  fill(stream, buffer, 1);
  const std::byte* address = buffer.data();
  buffer.reset();
  EXPECT_NE(allocator.allocate(4 * kMiB, other).data(), address);
}

TEST_P(MemorySuite, LendsABlockToAStreamWhoseClockCoversIt) {
  hold(stream);
  Buffer buffer = allocator.allocate(4 * kMiB, stream);
  fill(stream, buffer, 1);
  const std::byte* address = buffer.data();
  buffer.reset();
  join(other, stream);
  const Buffer lent = allocator.allocate(4 * kMiB, other);
  EXPECT_EQ(lent.data(), address);
  EXPECT_EQ(allocator.statistics().covered_reuses, 1U);
  EXPECT_EQ(allocator.statistics().device_waits, 0U);
}

TEST_P(MemorySuite, AJoinFromBeforeTheFreeCoversNothing) {
  hold(stream);
  Buffer buffer = allocator.allocate(4 * kMiB, stream);
  const std::byte* address = buffer.data();
  join(other, stream);
  fill(stream, buffer, 1);  // after the join: the free covers this too
  buffer.reset();
  EXPECT_NE(allocator.allocate(4 * kMiB, other).data(), address);
}

TEST_P(MemorySuite, ALentBlockComesBackToItsStreamOnlyWhenOrdered) {
  hold(stream);
  Buffer buffer = allocator.allocate(4 * kMiB, stream);
  const std::byte* address = buffer.data();
  buffer.reset();
  join(other, stream);
  Buffer lent = allocator.allocate(4 * kMiB, other);
  ASSERT_EQ(lent.data(), address);
  fill(other, lent, 2);
  lent.reset();
  // The borrower gets it again immediately; its first owner only after a join.
  Buffer again = allocator.allocate(4 * kMiB, other);
  EXPECT_EQ(again.data(), address);
  EXPECT_NE(allocator.allocate(4 * kMiB, stream).data(), address);
}

TEST_P(MemorySuite, ABlockUsedOnASecondStreamWaitsForIt) {
  use_policy({.cross_stream = CrossStream::kGrow});
  hold(other);
  Buffer buffer = allocator.allocate(4 * kMiB, stream);
  const std::byte* address = buffer.data();
  buffer.use_on(other);
  fill(other, buffer, 3);
  buffer.reset();
  EXPECT_EQ(allocator.statistics().now.pending_nbytes, 4 * kMiB);
  EXPECT_NE(allocator.allocate(4 * kMiB, stream).data(), address);
  EXPECT_EQ(allocator.statistics().events_recorded, 0U);
}

TEST_P(MemorySuite, ABlockUsedOnASecondStreamIsReusedOnceCovered) {
  hold(other);
  Buffer buffer = allocator.allocate(4 * kMiB, stream);
  const std::byte* address = buffer.data();
  buffer.use_on(other);
  fill(other, buffer, 3);
  buffer.reset();
  join(stream, other);
  EXPECT_EQ(allocator.allocate(4 * kMiB, stream).data(), address);
  EXPECT_EQ(allocator.statistics().device_waits, 0U);
}

TEST_P(MemorySuite, WaitsOnTheDeviceForTheSecondStreamRatherThanGrow) {
  const device::Hold held = [&] {
    // The hold marks its stream as one that may spin, so it is on a third stream that the second one waits for.
    const Stream third = device.create_stream({.name = "third"});
    device::Hold stopped = hold(third);
    join(other, third);
    return stopped;
  }();
  Buffer buffer = allocator.allocate(4 * kMiB, stream);
  const std::byte* address = buffer.data();
  buffer.use_on(other);
  fill(other, buffer, 3);
  buffer.reset();
  Buffer again = allocator.allocate(4 * kMiB, stream);
  EXPECT_EQ(again.data(), address);
  EXPECT_EQ(allocator.statistics().device_waits, 1U);
  fill(stream, again, 4);
  held.release();
  EXPECT_TRUE(holds(again, 4));
}

TEST_P(MemorySuite, NeverWaitsForAStreamThatMaySpin) {
  const Stream spinning = device.create_stream({.name = "spinning", .may_spin = true});
  hold(spinning);
  Buffer buffer = allocator.allocate(4 * kMiB, stream);
  const std::byte* address = buffer.data();
  buffer.use_on(spinning);
  fill(spinning, buffer, 3);
  buffer.reset();
  EXPECT_NE(allocator.allocate(4 * kMiB, stream).data(), address);
  EXPECT_EQ(allocator.statistics().device_waits, 0U);
}

TEST_P(MemorySuite, NeverMakesAStreamThatMaySpinWait) {
  const Stream spinning = device.create_stream({.name = "spinning", .may_spin = true});
  const Stream third = device.create_stream({.name = "third"});
  hold(third);
  join(other, third);
  Buffer buffer = allocator.allocate(4 * kMiB, spinning);
  const std::byte* address = buffer.data();
  buffer.use_on(other);
  fill(other, buffer, 3);
  buffer.reset();
  EXPECT_NE(allocator.allocate(4 * kMiB, spinning).data(), address);
  EXPECT_EQ(allocator.statistics().device_waits, 0U);
}

TEST_P(MemorySuite, RecordsNoEventForABlockOfOneStream) {
  for (int i = 0; i < 10; ++i) fill(stream, allocator.allocate(kMiB, stream), 1);
  EXPECT_EQ(allocator.statistics().events_recorded, 0U);
}

TEST_P(MemorySuite, MakesNoDriverCallToAllocateAndFreeWhatIsCached) {
  { const Buffer warm = allocator.allocate(kMiB, stream); }
  device.faults().count_calls(true);
  for (int i = 0; i < 100; ++i) {
    const Buffer buffer = allocator.allocate(kMiB, stream);
  }
  for (std::size_t call = 0; call < static_cast<std::size_t>(device::DriverCall::kCount); ++call)
    EXPECT_EQ(device.faults().calls(static_cast<device::DriverCall>(call)), 0U) << call;
  device.faults().count_calls(false);
}

TEST_P(MemorySuite, APartOfAPendingBlockWaitsForTheSameUses) {
  use_policy({.cross_stream = CrossStream::kGrow});
  hold(other);
  Buffer buffer = allocator.allocate(8 * kMiB, stream);
  const std::byte* address = buffer.data();
  buffer.use_on(other);
  buffer.reset();
  join(stream, other);
  const Buffer low = allocator.allocate(4 * kMiB, stream);
  EXPECT_EQ(low.data(), address);
  const Stream third = device.create_stream();
  const Buffer elsewhere = allocator.allocate(4 * kMiB, third);
  EXPECT_NE(elsewhere.data(), address + 4 * kMiB);
  const Buffer high = allocator.allocate(4 * kMiB, stream);
  EXPECT_EQ(high.data(), address + 4 * kMiB);
}

TEST_P(MemorySuite, OverlappingLaunchesDoNotShareABlock) {
  const device::Hold held = hold(stream);
  Buffer buffer = allocator.allocate(4 * kMiB, stream);
  const std::byte* address = buffer.data();
  fill(stream, buffer, 1);
  Buffer elsewhere;
  {
    const Stream::OverlapScope overlap(stream);
    buffer.reset();
    elsewhere = allocator.allocate(4 * kMiB, stream);
    EXPECT_NE(elsewhere.data(), address);
  }
  EXPECT_EQ(allocator.allocate(4 * kMiB, stream).data(), address);
}

TEST_P(MemorySuite, AStreamThatIsGoneIsNotWaitedForForever) {
  Buffer buffer = allocator.allocate(4 * kMiB, stream);
  const std::byte* address = buffer.data();
  Stream brief = device.create_stream({.name = "brief"});
  buffer.use_on(brief);
  fill(brief, buffer, 1);
  brief.synchronize();
  buffer.reset();
  brief.reset();
  EXPECT_EQ(allocator.allocate(4 * kMiB, stream).data(), address);
}

TEST_P(MemorySuite, ContentsHoldWhileStreamsPassBlocksAround) {
  std::vector<Buffer> results;
  for (int round = 0; round < 20; ++round) {
    Buffer a = allocator.allocate(256 * kKiB, stream);
    fill(stream, a, static_cast<std::uint8_t>(round));
    join(other, stream);
    Buffer b = allocator.allocate(256 * kKiB, other);
    a.use_on(other);
    other.copy(b.data(), a.data(), a.nbytes());
    a.reset();
    Buffer scratch = allocator.allocate(256 * kKiB, stream);  // may be the memory of a, after the copy
    fill(stream, scratch, 255);
    results.push_back(std::move(b));
  }
  for (std::size_t round = 0; round < results.size(); ++round)
    ASSERT_TRUE(holds(results[round], static_cast<std::uint8_t>(round)));
}

}  // namespace tessera::memory::suite
