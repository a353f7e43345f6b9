// Checkpoint and restore of the positions and states of the blocks of a pool.
#include <algorithm>

#include "tessera/memory/graph_capture.h"
#include "tessera/memory/suite/memory_suite.h"

namespace tessera::memory::suite {

namespace {

std::uint64_t live_in(const Pool& pool) { return pool.snapshot().totals().live_blocks; }

// Returns the live blocks of a pool, by address.
std::vector<std::uint64_t> live_addresses(const Pool& pool) {
  std::vector<std::uint64_t> all;
  for (const SegmentView& segment : pool.snapshot().segments) {
    for (const BlockView& block : segment.blocks) {
      if (block.state == BlockState::kLive) all.push_back(block.address);
    }
  }
  return all;
}

std::vector<Buffer> one(Buffer buffer) {
  std::vector<Buffer> all;
  all.push_back(std::move(buffer));
  return all;
}

}  // namespace

TEST_P(MemorySuite, ARestoreFreesNewerBlocksThatAreHandedOver) {
  const Pool pool = allocator.create_pool({});
  const PoolScope scope(pool);
  const Buffer old = allocator.allocate(kMiB, stream);
  const PoolLayout layout = pool.checkpoint();
  Buffer newer = allocator.allocate(kMiB, stream);
  const std::byte* const address = newer.data();
  EXPECT_EQ(live_in(pool), 2U);
  stream.synchronize();
  EXPECT_TRUE(pool.restore(layout, one(std::move(newer))).empty());
  EXPECT_EQ(live_in(pool), 1U);
  EXPECT_EQ(allocator.allocate(kMiB, stream).data(), address);
}

TEST_P(MemorySuite, ARestoreMakesDeadBlocksLiveAgain) {
  const Pool pool = allocator.create_pool({});
  const PoolScope scope(pool);
  Buffer first = allocator.allocate(kMiB + 100, stream);
  Buffer second = allocator.allocate(300 * kKiB, stream);
  Buffer third = allocator.allocate(64 * kKiB, stream);
  const std::vector<std::uint64_t> before = live_addresses(pool);
  const PoolLayout both = pool.checkpoint();
  first.reset();
  const PoolLayout rest = pool.checkpoint();
  second.reset();
  third.reset();
  stream.synchronize();
  EXPECT_EQ(live_in(pool), 0U);
  std::vector<Buffer> restored = pool.restore(rest);
  EXPECT_EQ(restored.size(), 2U);
  EXPECT_EQ(live_in(pool), 2U);
  std::vector<Buffer> more = pool.restore(both);
  ASSERT_EQ(more.size(), 1U);
  EXPECT_EQ(more[0].nbytes(), kMiB + 100);
  EXPECT_EQ(more[0].stream(), stream.id());
  EXPECT_EQ(live_addresses(pool), before);
  EXPECT_TRUE(closes());
  restored.clear();
  EXPECT_EQ(live_in(pool), 1U);
  more.clear();
  EXPECT_EQ(live_in(pool), 0U);
  const Buffer whole = allocator.allocate(kMiB + 100, stream);  // everything merges again
  fill(stream, whole, 3);
  EXPECT_TRUE(holds(whole, 3));
}

TEST_P(MemorySuite, ARestoreCutsWhatWasMergedSinceAtTheOldPlaces) {
  const Pool pool = allocator.create_pool({});
  const PoolScope scope(pool);
  std::vector<Buffer> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(allocator.allocate(300 * kKiB, stream));
  blocks[1].reset();
  blocks[4].reset();
  const std::vector<std::uint64_t> before = live_addresses(pool);
  const PoolLayout layout = pool.checkpoint();
  blocks.clear();
  Buffer other_cut = allocator.allocate(700 * kKiB, stream);
  stream.synchronize();
  const std::vector<Buffer> restored = pool.restore(layout, one(std::move(other_cut)));
  EXPECT_EQ(restored.size(), 4U);
  EXPECT_EQ(live_addresses(pool), before);
}

TEST_P(MemorySuite, ARestoreRefusesALiveBlockThatIsNewer) {
  const Pool pool = allocator.create_pool({.name = "tree"});
  const PoolScope scope(pool);
  Buffer old = allocator.allocate(kMiB, stream);
  const PoolLayout layout = pool.checkpoint();
  old.reset();
  const Buffer newer = allocator.allocate(3 * kMiB, stream);
  stream.synchronize();
  expect_error<InvalidArgument>([&] { static_cast<void>(pool.restore(layout)); }, {"tree", "3 MiB", "newer"});
  EXPECT_EQ(live_in(pool), 1U);
  EXPECT_TRUE(closes());
}

TEST_P(MemorySuite, ARestoreRefusesALiveBlockOfAnotherCut) {
  const Pool pool = allocator.create_pool({});
  const PoolScope scope(pool);
  Buffer old = allocator.allocate(kMiB, stream);
  const PoolLayout layout = pool.checkpoint();
  old.reset();
  const Buffer part = allocator.allocate(512 * kKiB, stream);  // at the same address
  stream.synchronize();
  expect_error<InvalidArgument>([&] { static_cast<void>(pool.restore(layout)); }, {"512 KiB"});
}

TEST_P(MemorySuite, ARestoreRefusesWhatWasTrimmedAway) {
  const Pool pool = allocator.create_pool({});
  const PoolScope scope(pool);
  Buffer old = allocator.allocate(4 * kMiB, stream);
  const Buffer kept = allocator.allocate(2 * kMiB, stream);
  const PoolLayout layout = pool.checkpoint();
  old.reset();
  stream.synchronize();
  EXPECT_EQ(pool.trim(), 4 * kMiB);
  expect_error<InvalidArgument>([&] { static_cast<void>(pool.restore(layout)); }, {"4 MiB", "trim"});
  EXPECT_EQ(live_in(pool), 1U);
  EXPECT_TRUE(closes());
}

TEST_P(MemorySuite, ARestoreRefusesABlockThatAStreamStillUses) {
  const Pool pool = allocator.create_pool({});
  const PoolScope scope(pool);
  Buffer old = allocator.allocate(kMiB, stream);
  const PoolLayout layout = pool.checkpoint();
  const device::Hold held = hold(other);
  old.use_on(other);
  fill(other, old, 1);
  old.reset();
  expect_error<InvalidArgument>([&] { static_cast<void>(pool.restore(layout)); }, {"in use"});
  held.release();
  other.synchronize();
  EXPECT_EQ(pool.restore(layout).size(), 1U);
}

TEST_P(MemorySuite, ABlockInUseThatTheLayoutDoesNotNeedStopsNoRestore) {
  const Pool pool = allocator.create_pool({});
  const PoolScope scope(pool);
  Buffer old = allocator.allocate(kMiB, stream);
  const PoolLayout layout = pool.checkpoint();
  Buffer newer = allocator.allocate(kMiB, stream);
  hold(other);
  newer.use_on(other);
  fill(other, newer, 1);
  newer.reset();
  old.reset();
  EXPECT_EQ(pool.restore(layout).size(), 1U);
  EXPECT_EQ(pool.snapshot().totals().pending_blocks, 1U);
}

TEST_P(MemorySuite, ARestoreKeepsABlockThatAGraphHoldsBesideAnother) {
  const Pool pool = allocator.create_pool({});
  Buffer old;
  Buffer input;
  {
    const PoolScope scope(pool);
    old = allocator.allocate(2 * kMiB, stream);
    input = allocator.allocate(2 * kMiB, stream);
  }
  CapturedGraph graph;
  {
    GraphCapture capture(allocator, stream);
    input.use_on(stream);
    const Buffer result = allocator.allocate(2 * kMiB, stream);
    stream.copy(result.data(), input.data(), 2 * kMiB);
    graph = capture.end();
  }
  input.reset();
  const PoolLayout layout = pool.checkpoint();
  old.reset();
  stream.synchronize();
  EXPECT_EQ(pool.restore(layout).size(), 1U);
  EXPECT_EQ(pool.snapshot().totals().pending_nbytes, 2 * kMiB);
}

TEST_P(MemorySuite, ARestoreRefusesTheLayoutOfAnotherPool) {
  const Pool pool = allocator.create_pool({});
  const Pool second = allocator.create_pool({});
  expect_error<InvalidArgument>([&] { static_cast<void>(pool.restore(second.checkpoint())); }, {"another pool"});
}

TEST_P(MemorySuite, ARestoreBringsBackTheBlocksOfEveryStream) {
  const Pool pool = allocator.create_pool({});
  const PoolScope scope(pool);
  Buffer first = allocator.allocate(kMiB, stream);
  Buffer second = allocator.allocate(kMiB, other);
  const PoolLayout layout = pool.checkpoint();
  first.reset();
  second.reset();
  device.synchronize();
  const std::vector<Buffer> restored = pool.restore(layout);
  ASSERT_EQ(restored.size(), 2U);
  EXPECT_NE(restored[0].stream(), restored[1].stream());
  for (const Buffer& buffer : restored) fill(stream, buffer, 1);
}

TEST_P(MemorySuite, AnotherPathOfCapturesGoesOnFromACheckpoint) {
  const Pool pool = allocator.create_pool({});
  Buffer root_result;
  const auto capture_it = [&](const char* name, std::uint8_t value, Buffer& result) {
    GraphCapture capture(pool, stream, name);
    if (root_result) root_result.use_on(stream);
    Buffer scratch = allocator.allocate(kMiB, stream);
    fill(stream, scratch, value);
    result = allocator.allocate(kMiB, stream);
    stream.copy(result.data(), scratch.data(), kMiB);
    scratch.reset();
    return capture.end();
  };
  const CapturedGraph root = capture_it("root", 1, root_result);
  const PoolLayout after_root = pool.checkpoint();
  Buffer left_result;
  const CapturedGraph left = capture_it("left", 2, left_result);
  std::byte* const left_at = left_result.data();
  const PoolLayout after_left = pool.checkpoint();
  stream.synchronize();
  EXPECT_TRUE(pool.restore(after_root, one(std::move(left_result))).empty());
  Buffer right_result;
  const CapturedGraph right = capture_it("right", 3, right_result);
  EXPECT_EQ(right_result.data(), left_at);  // the paths exclude each other and share memory
  root.replay(stream);
  right.replay(stream);
  EXPECT_TRUE(holds(root_result, 1));
  EXPECT_TRUE(holds(right_result, 3));
  std::vector<Buffer> restored = pool.restore(after_left, one(std::move(right_result)));
  ASSERT_EQ(restored.size(), 1U);
  EXPECT_EQ(restored[0].data(), left_at);
  root.replay(stream);
  left.replay(stream);
  EXPECT_TRUE(holds(root_result, 1));
  EXPECT_TRUE(holds(restored[0], 2));
}

TEST_P(MemorySuite, ABlockFreedWhileItsStreamWorkedIsRestoredOnceThatIsOver) {
  const Pool pool = allocator.create_pool({});
  Buffer result;
  CapturedGraph graph;
  {
    GraphCapture capture(pool, stream);
    result = allocator.allocate(kMiB, stream);
    fill(stream, result, 4);
    graph = capture.end();
  }
  const PoolLayout layout = pool.checkpoint();
  const device::Hold held = hold(stream);
  graph.replay(stream);
  result.reset();  // the replay has not run
  held.release();
  stream.synchronize();
  const std::vector<Buffer> restored = pool.restore(layout);
  ASSERT_EQ(restored.size(), 1U);
  EXPECT_TRUE(holds(restored[0], 4));
}

}  // namespace tessera::memory::suite
