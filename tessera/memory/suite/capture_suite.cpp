// Memory under graph capture: reuse by proof, pools shared by graphs, and rejection of replays that would corrupt data.
#include "tessera/memory/graph_capture.h"
#include "tessera/memory/suite/memory_suite.h"

namespace tessera::memory::suite {

namespace {

std::size_t reserved_in(const Pool& pool) { return pool.snapshot().totals().reserved_nbytes; }

}  // namespace

TEST_P(MemorySuite, ReusesABlockInsideACaptureOnItsOwnStream) {
  const Pool pool = allocator.create_pool({.name = "graphs"});
  GraphCapture capture(pool, stream);
  std::byte* address = nullptr;
  for (int i = 0; i < 5; ++i) {
    const Buffer buffer = allocator.allocate(4 * kMiB, stream);
    fill(stream, buffer, static_cast<std::uint8_t>(i));
    if (i == 0) address = buffer.data();
    EXPECT_EQ(buffer.data(), address);
  }
  const CapturedGraph graph = capture.end();
  EXPECT_EQ(reserved_in(pool), 4 * kMiB);
  EXPECT_EQ(graph.written_nbytes(), 4 * kMiB);
}

TEST_P(MemorySuite, ReusesASecondStreamsBlockOnlyAfterTheJoin) {
  const Pool pool = allocator.create_pool({});
  GraphCapture capture(pool, stream);
  Buffer used = allocator.allocate(4 * kMiB, stream);
  std::byte* const address = used.data();
  fill(stream, used, 1);
  join(other, stream);
  used.use_on(other);
  fill(other, used, 2);
  used.reset();
  const Buffer before = allocator.allocate(4 * kMiB, stream);
  EXPECT_NE(before.data(), address);
  join(stream, other);
  const Buffer after = allocator.allocate(4 * kMiB, stream);
  EXPECT_EQ(after.data(), address);
  static_cast<void>(capture.end());
}

TEST_P(MemorySuite, GivesABlockToAnotherStreamOfTheCaptureAfterAJoin) {
  const Pool pool = allocator.create_pool({});
  GraphCapture capture(pool, stream);
  Buffer first = allocator.allocate(4 * kMiB, stream);
  std::byte* const address = first.data();
  fill(stream, first, 1);
  join(other, stream);
  fill(stream, first, 2);
  first.reset();
  const Buffer before = allocator.allocate(4 * kMiB, other);
  EXPECT_NE(before.data(), address);
  join(other, stream);
  EXPECT_EQ(allocator.allocate(4 * kMiB, other).data(), address);
  join(stream, other);
  static_cast<void>(capture.end());
}

TEST_P(MemorySuite, AReplacedDependencySetProvesNothing) {
  const Pool pool = allocator.create_pool({});
  GraphCapture capture(pool, stream);
  const Buffer keep = allocator.allocate(4 * kMiB, stream);
  fill(stream, keep, 1);
  const auto before = stream.capture_info().dependencies;
  Buffer used = allocator.allocate(4 * kMiB, stream);
  std::byte* const address = used.data();
  fill(stream, used, 2);
  std::vector<NodeId> nodes;
  for (const device::Dependency& one : before) nodes.push_back(one.node);
  std::vector<NodeId> all = nodes;
  for (const device::Dependency& one : stream.capture_info().dependencies) all.push_back(one.node);
  stream.set_capture_dependencies(nodes);  // concurrent with the fill, not after it
  used.reset();
  const Buffer beside = allocator.allocate(4 * kMiB, stream);
  EXPECT_NE(beside.data(), address);
  stream.set_capture_dependencies(all);
  fill(stream, keep, 3);
  EXPECT_EQ(allocator.allocate(4 * kMiB, stream).data(), address);
  static_cast<void>(capture.end());
}

TEST_P(MemorySuite, FreesEverythingDeferredAtTheEndOfTheCapture) {
  const Pool pool = allocator.create_pool({});
  const auto capture_once = [&] {
    GraphCapture capture(pool, stream);
    Buffer used = allocator.allocate(4 * kMiB, stream);
    join(other, stream);
    used.use_on(other);
    fill(other, used, 2);
    used.reset();
    join(stream, other);
    return capture.end();
  };
  const CapturedGraph first = capture_once();
  const std::size_t once = reserved_in(pool);
  const CapturedGraph second = capture_once();
  EXPECT_EQ(reserved_in(pool), once);
}

TEST_P(MemorySuite, AllocationsOnAJoinedStreamComeFromTheCapturesPool) {
  const Pool pool = allocator.create_pool({});
  GraphCapture capture(pool, stream);
  const Buffer a = allocator.allocate(kMiB, stream);
  join(other, stream);
  const Buffer b = allocator.allocate(kMiB, other);
  EXPECT_EQ(pool.snapshot().totals().live_blocks, 2U);
  fill(other, b, 1);
  join(stream, other);
  static_cast<void>(capture.end());
}

TEST_P(MemorySuite, AStreamOutsideTheCaptureKeepsItsOwnPool) {
  const Pool pool = allocator.create_pool({});
  GraphCapture capture(pool, stream);
  const Buffer eager = allocator.allocate(kMiB, other);
  EXPECT_EQ(pool.snapshot().totals().live_blocks, 0U);
  fill(other, eager, 5);
  static_cast<void>(capture.end());
  EXPECT_TRUE(holds(eager, 5));
}

TEST_P(MemorySuite, TheInnermostPoolScopeWinsInsideACapture) {
  const Pool outer = allocator.create_pool({});
  const Pool inner = allocator.create_pool({});
  GraphCapture capture(outer, stream);
  Buffer in_inner;
  {
    const PoolScope scope(inner);
    in_inner = allocator.allocate(kMiB, stream);
  }
  const Buffer in_outer = allocator.allocate(kMiB, stream);
  EXPECT_EQ(inner.snapshot().totals().live_blocks, 1U);
  EXPECT_EQ(outer.snapshot().totals().live_blocks, 1U);
  static_cast<void>(capture.end());
}

TEST_P(MemorySuite, AllocatingInACaptureItDoesNotKnowIsRefused) {
  stream.begin_capture();
  expect_error<InvalidArgument>([&] { static_cast<void>(allocator.allocate(kMiB, stream)); }, {"GraphCapture"});
  stream.abort_capture();
}

TEST_P(MemorySuite, ReplaysWriteTheResultsThatOutliveTheGraph) {
  const Pool pool = allocator.create_pool({});
  Buffer result;
  {
    GraphCapture capture(pool, stream);
    Buffer scratch = allocator.allocate(kMiB, stream);
    fill(stream, scratch, 6);
    result = allocator.allocate(kMiB, stream);
    stream.copy(result.data(), scratch.data(), kMiB);
    scratch.reset();
    const CapturedGraph graph = capture.end();
    graph.replay(stream);
    stream.synchronize();
  }
  EXPECT_TRUE(holds(result, 6));
}

TEST_P(MemorySuite, ThirtyTwoGraphsShareAPoolAndReplayInAnyOrder) {
  const Pool pool = allocator.create_pool({});
  std::vector<CapturedGraph> graphs;
  std::vector<Buffer> results;
  for (std::size_t i = 1; i <= 32; ++i) {
    GraphCapture capture(pool, stream, "batch " + std::to_string(i));
    Buffer scratch = allocator.allocate(i * 128 * kKiB, stream);
    fill(stream, scratch, static_cast<std::uint8_t>(i));
    Buffer result = allocator.allocate(4 * kKiB, stream);
    stream.copy(result.data(), scratch.data(), 4 * kKiB);
    scratch.reset();
    graphs.push_back(capture.end());
    results.push_back(std::move(result));
  }
  EXPECT_LE(reserved_in(pool), 14 * kMiB);  // the largest alone takes 4 MiB; the sum is 66 MiB
  for (const std::size_t i : {31, 0, 17, 5, 30, 2, 31, 8}) {
    graphs[i].replay(stream);
    EXPECT_TRUE(holds(results[i], static_cast<std::uint8_t>(i + 1)));
  }
}

// Three graphs in one pool: the second reads the output of the first, the third reuses that memory after it is free.
class ThreeGraphs {
 public:
  ThreeGraphs(const Allocator& allocator, const Stream& stream) : pool_(allocator.create_pool({.name = "three"})) {
    {
      GraphCapture capture(pool_, stream, "produce");
      made = allocator.allocate(kMiB, stream);
      stream.fill(made.data(), 1, 1, kMiB);
      produce = capture.end();
    }
    {
      GraphCapture capture(pool_, stream, "consume");
      made.use_on(stream);
      result = allocator.allocate(kMiB, stream);
      stream.copy(result.data(), made.data(), kMiB);
      consume = capture.end();
    }
    made.reset();
    stream.synchronize();
    GraphCapture capture(pool_, stream, "overwrite");
    const Buffer scratch = allocator.allocate(kMiB, stream);
    stream.fill(scratch.data(), 9, 1, kMiB);
    overwrite = capture.end();
  }
  CapturedGraph produce, consume, overwrite;
  Buffer made, result;

 private:
  Pool pool_;
};

TEST_P(MemorySuite, AReplayWhoseInputWasOverwrittenIsAnError) {
  const ThreeGraphs graphs(allocator, stream);
  expect_error<InvalidArgument>([&] { graphs.consume.replay(stream); }, {"consume", "produce"});
  graphs.produce.replay(stream);
  graphs.consume.replay(stream);
  EXPECT_TRUE(holds(graphs.result, 1));
  graphs.overwrite.replay(stream);
  expect_error<InvalidArgument>([&] { graphs.consume.replay(stream); }, {"consume", "overwrite"});
  graphs.produce.replay(stream);
  graphs.consume.replay(stream);
  EXPECT_TRUE(holds(graphs.result, 1));
}

TEST_P(MemorySuite, AConcurrentReplayOfAGraphThatSharesMemoryIsAnError) {
  const ThreeGraphs graphs(allocator, stream);
  hold(stream);
  graphs.produce.replay(stream);
  expect_error<InvalidArgument>([&] { graphs.overwrite.replay(other); }, {"produce", "overwrite"});
  join(other, stream);
  graphs.overwrite.replay(other);
}

TEST_P(MemorySuite, GivesNothingBackToTheDriverDuringACapture) {
  { const Buffer cached = allocator.allocate(8 * kMiB, stream); }
  stream.synchronize();
  const Pool pool = allocator.create_pool({});
  {
    GraphCapture capture(pool, stream);
    device.faults().count_calls(true);
    EXPECT_EQ(allocator.trim(), 0U);
    const Buffer inside = allocator.allocate(16 * kMiB, stream);
    fill(stream, inside, 1);
    EXPECT_EQ(device.faults().calls(device::DriverCall::kUnmap), 0U);
    device.faults().count_calls(false);
    static_cast<void>(capture.end());
  }
  EXPECT_EQ(allocator.trim() > 0, true);
}

TEST_P(MemorySuite, ABufferUsedInACaptureIsKeptWhileTheGraphLives) {
  Buffer input = allocator.allocate(4 * kMiB, stream);
  std::byte* const address = input.data();
  CapturedGraph graph;
  {
    GraphCapture capture(allocator, stream, "keeps");
    input.use_on(stream);
    const Buffer result = allocator.allocate(4 * kMiB, stream);
    stream.copy(result.data(), input.data(), 4 * kMiB);
    graph = capture.end();
  }
  input.reset();
  stream.synchronize();
  const auto pending = [&] { return allocator.default_pool().snapshot().totals().pending_nbytes; };
  EXPECT_EQ(pending(), 4 * kMiB);
  const Buffer elsewhere = allocator.allocate(4 * kMiB, stream);
  EXPECT_NE(elsewhere.data(), address);
  graph.replay(stream);
  graph = {};
  EXPECT_EQ(allocator.allocate(4 * kMiB, stream).data(), address);
  EXPECT_EQ(pending(), 0U);
}

TEST_P(MemorySuite, AnAbandonedCaptureGivesItsMemoryBack) {
  const Pool pool = allocator.create_pool({});
  Buffer input = allocator.allocate(kMiB, stream);
  {
    const GraphCapture capture(pool, stream);
    const Buffer scratch = allocator.allocate(4 * kMiB, stream);
    input.use_on(stream);
    input.reset();
  }
  EXPECT_FALSE(stream.is_capturing());
  EXPECT_EQ(pool.snapshot().totals().pending_nbytes, 0U);
  EXPECT_EQ(allocator.statistics().now.pending_nbytes, 0U);
  EXPECT_EQ(pool.snapshot().totals().cached_nbytes, reserved_in(pool));
}

TEST_P(MemorySuite, AnAllocatorThatGoesDuringACaptureGivesBackAfterIt) {
  Allocator brief(device);
  Buffer buffer = brief.allocate(4 * kMiB, other);
  other.synchronize();
  const std::size_t before = device.memory_use().own_nbytes;
  {
    GraphCapture capture(allocator, stream);
    const Buffer inside = allocator.allocate(512, stream);
    fill(stream, inside, 1);
    device.faults().count_calls(true);  // from 0
    brief = {};
    buffer.reset();
    EXPECT_EQ(device.faults().calls(device::DriverCall::kUnmap), 0U);
    static_cast<void>(capture.end());
    device.faults().count_calls(false);
  }
  EXPECT_LE(device.memory_use().own_nbytes + 4 * kMiB, before + 2 * kMiB);  // memory of the capture is still there
}

TEST_P(MemorySuite, TheMemoryOfAGraphsOwnPoolGoesBackWithIt) {
  {
    GraphCapture capture(allocator, stream);
    const Buffer scratch = allocator.allocate(16 * kMiB, stream);
    fill(stream, scratch, 1);
    const CapturedGraph graph = capture.end();
    EXPECT_EQ(reserved(), 16 * kMiB);
    graph.replay(stream);
  }
  stream.synchronize();
  allocator.trim();
  EXPECT_EQ(reserved(), 0U);
  EXPECT_EQ(allocator.snapshot().pools.size(), 1U);
}

TEST_P(MemorySuite, EstimatesWhatACaptureWillCost) {
  const Pool pool = allocator.create_pool({});
  const auto body = [&] {
    std::vector<Buffer> all;
    for (std::size_t i = 1; i < 20; ++i) {
      all.push_back(allocator.allocate(i * 300 * kKiB, stream));
      fill(stream, all.back(), 1);
      if (i % 3 == 0) all.erase(all.begin());
    }
  };
  const std::size_t reserved_before = reserved();
  const std::size_t estimated = estimate(pool, stream, body);
  EXPECT_EQ(reserved(), reserved_before);
  const auto capture_it = [&] {
    GraphCapture capture(pool, stream);
    body();
    return capture.end();
  };
  const CapturedGraph first = capture_it();
  EXPECT_EQ(reserved_in(pool), estimated);
  const std::size_t second_estimate = estimate(pool, stream, body);
  const CapturedGraph second = capture_it();
  EXPECT_EQ(reserved_in(pool), estimated + second_estimate);
}

TEST_P(MemorySuite, APoolReopensWhileItsBlocksLive) {
  const Pool pool = allocator.create_pool({});
  Buffer result;
  const auto capture_it = [&](std::uint8_t value) {
    GraphCapture capture(pool, stream);
    result = allocator.allocate(kMiB, stream);
    fill(stream, result, value);
    return capture.end();
  };
  CapturedGraph graph = capture_it(1);
  graph = {};
  graph = capture_it(2);  // the first result was still live when this began
  graph.replay(stream);
  EXPECT_TRUE(holds(result, 2));
}

TEST_P(MemorySuite, CapturesTheSameThingTwice) {
  const Pool pool = allocator.create_pool({});
  for (int i = 0; i < 100; ++i) {
    GraphCapture capture(pool, stream);
    const Buffer a = allocator.allocate(kMiB, stream);
    fill(stream, a, 1);
    const CapturedGraph graph = capture.end();
    graph.replay(stream);
  }
  EXPECT_LE(reserved_in(pool), 2 * kMiB);
}

}  // namespace tessera::memory::suite
