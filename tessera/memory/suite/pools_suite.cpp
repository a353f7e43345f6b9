// Pools: scopes, private memory, growth callbacks, and restored layouts.
#include <map>
#include <set>

#include "tessera/memory/device_upstream.h"
#include "tessera/memory/graph_capture.h"
#include "tessera/memory/suite/memory_suite.h"
#include "tessera/memory/testing/decorators.h"

namespace tessera::memory::suite {

namespace {

std::uint64_t live_in(const Pool& pool) { return pool.snapshot().totals().live_blocks; }
std::size_t reserved_in(const Pool& pool) { return pool.snapshot().totals().reserved_nbytes; }

// Calls of a growth callback, as the registrations that a user would keep.
class Registrations {
 public:
  explicit Registrations(const Pool& pool)
      : pool_(pool), number_(pool.on_growth([this](const Growth& growth) { note(growth); })) {}
  ~Registrations() { pool_.off_growth(number_); }
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  // Succeeds if exactly the mapped bytes of the pool are registered.
  [[nodiscard]] ::testing::AssertionResult match() const {
    std::size_t nbytes = 0;
    for (const auto& [address, size] : all) nbytes += size;
    const Snapshot snapshot = pool_.snapshot();
    const std::uint64_t mapped = snapshot.totals().reserved_nbytes;
    if (nbytes != mapped) return ::testing::AssertionFailure() << nbytes << " registered, " << mapped << " mapped";
    for (const SegmentView& segment : snapshot.segments) {
      std::uint64_t at = segment.address;
      while (at < segment.address + segment.nbytes) {
        const auto found = all.find(at);
        if (found == all.end()) return ::testing::AssertionFailure() << "nothing is registered at " << at;
        at += found->second;
      }
    }
    return ::testing::AssertionSuccess();
  }

  std::map<std::uint64_t, std::size_t> all;
  int calls = 0;

 private:
  void note(const Growth& growth) {
    ++calls;
    const auto address = reinterpret_cast<std::uint64_t>(growth.address);
    if (growth.is_mapped) {
      EXPECT_TRUE(all.emplace(address, growth.nbytes).second) << "registered twice";
    } else {
      const auto found = all.find(address);
      ASSERT_NE(found, all.end()) << "deregistered without having been registered";
      EXPECT_EQ(found->second, growth.nbytes);
      all.erase(found);
    }
  }
  Pool pool_;
  std::uint64_t number_;
};

// An upstream that reports its destruction.
class MortalUpstream final : public memory::testing::UpstreamDecorator {
 public:
  MortalUpstream(std::shared_ptr<Upstream> inner, bool& is_gone)
      : UpstreamDecorator(std::move(inner)), is_gone_(is_gone) {}
  ~MortalUpstream() override { is_gone_ = true; }

 private:
  bool& is_gone_;
};

}  // namespace

TEST_P(MemorySuite, PoolScopesNestAndTheInnermostWins) {
  const Pool outer = allocator.create_pool({.name = "outer"});
  const Pool inner = allocator.create_pool({.name = "inner"});
  std::vector<Buffer> live;
  {
    const PoolScope first(outer);
    live.push_back(allocator.allocate(kMiB, stream));
    {
      const PoolScope second(inner);
      live.push_back(allocator.allocate(kMiB, stream));
      const PoolScope third(outer);
      live.push_back(allocator.allocate(kMiB, stream));
    }
    live.push_back(allocator.allocate(kMiB, stream));
  }
  live.push_back(allocator.allocate(kMiB, stream));
  EXPECT_EQ(live_in(outer), 3U);
  EXPECT_EQ(live_in(inner), 1U);
  EXPECT_EQ(live_in(allocator.default_pool()), 1U);
}

TEST_P(MemorySuite, APoolScopeIsOfItsThreadAlone) {
  const Pool pool = allocator.create_pool({});
  Buffer elsewhere;
  const PoolScope scope(pool);
  const Buffer here = allocator.allocate(kMiB, stream);
  subject->run_together({[&] { elsewhere = allocator.allocate(kMiB, other); }});
  EXPECT_EQ(live_in(pool), 1U);
  EXPECT_EQ(live_in(allocator.default_pool()), 1U);
}

TEST_P(MemorySuite, ThreadsEachHaveAPoolOfTheirOwn) {
  constexpr std::size_t kThreads = 4;
  std::vector<Pool> pools(kThreads);
  std::vector<std::vector<Buffer>> live(kThreads);
  std::vector<std::function<void()>> bodies;
  for (std::size_t i = 0; i < kThreads; ++i) {
    bodies.emplace_back([&, i, mine = device.create_stream()] {
      pools[i] = allocator.create_pool({});
      const PoolScope scope(pools[i]);
      for (std::size_t k = 0; k <= i; ++k) live[i].push_back(allocator.allocate(100 * kKiB, mine));
    });
  }
  subject->run_together(std::move(bodies));
  std::set<PoolId> ids;
  for (std::size_t i = 0; i < kThreads; ++i) {
    EXPECT_EQ(live_in(pools[i]), i + 1);
    ids.insert(pools[i].id());
  }
  EXPECT_EQ(ids.size(), kThreads);
}

TEST_P(MemorySuite, APoolScopeDoesNotReachAnotherAllocator) {
  const Allocator second(device);
  const Pool pool = allocator.create_pool({});
  const PoolScope scope(pool);
  const Buffer buffer = second.allocate(kMiB, stream);
  EXPECT_EQ(live_in(pool), 0U);
  EXPECT_EQ(live_in(second.default_pool()), 1U);
}

TEST_P(MemorySuite, APoolScopeMayEndBeforeACaptureThatBeganInsideIt) {
  const Pool pool = allocator.create_pool({});
  auto scope = std::make_unique<PoolScope>(pool);
  GraphCapture capture(allocator.create_pool({}), stream);
  scope.reset();
  const Buffer inside = allocator.allocate(kMiB, stream);
  const Buffer eager = allocator.allocate(kMiB, other);
  static_cast<void>(capture.end());
  EXPECT_EQ(live_in(pool), 0U);
  EXPECT_EQ(live_in(allocator.default_pool()), 1U);
}

TEST_P(MemorySuite, PoolIdsAreUniqueAndIncrease) {
  std::uint64_t last = 0;
  for (int i = 0; i < 5; ++i) {
    const Pool pool = allocator.create_pool({});
    EXPECT_EQ(pool.id().graph, 0U);
    EXPECT_GT(pool.id().user, last);
    EXPECT_EQ(pool.name(), "pool " + std::to_string(pool.id().user));
    last = pool.id().user;
  }
  EXPECT_EQ(allocator.default_pool().id(), PoolId{});
  GraphCapture capture(allocator, stream);
  const CapturedGraph graph = capture.end();
  EXPECT_NE(graph.pool().id().graph, 0U);
  EXPECT_EQ(graph.pool().id().user, 0U);
}

TEST_P(MemorySuite, APoolIsHeldByHandlesScopesAndGraphs) {
  const Pool pool = allocator.create_pool({});
  EXPECT_EQ(pool.use_count(), 1U);
  {
    const PoolScope scope(pool);
    EXPECT_EQ(pool.use_count(), 2U);
    const Buffer buffer = allocator.allocate(kMiB, stream);
    EXPECT_EQ(pool.use_count(), 2U);
  }
  EXPECT_EQ(pool.use_count(), 1U);
  CapturedGraph graph;
  {
    GraphCapture capture(pool, stream);
    EXPECT_GE(pool.use_count(), 2U);
    graph = capture.end();
  }
  EXPECT_GE(pool.use_count(), 2U);
  graph = {};
  EXPECT_EQ(pool.use_count(), 1U);
}

TEST_P(MemorySuite, APoolsOwnUpstreamLivesUntilItsLastBufferIsGone) {
  bool is_gone = false;
  Buffer buffer;
  {
    const Pool pool =
        allocator.create_pool({.upstream = std::make_shared<MortalUpstream>(fixed_upstream(device), is_gone)});
    const PoolScope scope(pool);
    buffer = allocator.allocate(4 * kMiB, stream);
  }
  EXPECT_FALSE(is_gone);
  fill(stream, buffer, 3);
  EXPECT_TRUE(holds(buffer, 3));
  buffer.reset();
  stream.synchronize();
  allocator.trim();
  EXPECT_TRUE(is_gone);
  EXPECT_EQ(reserved(), 0U);
}

TEST_P(MemorySuite, ABufferOfAPoolOutlivesThePoolAndTheAllocator) {
  Buffer buffer;
  {
    const Pool pool = allocator.create_pool({});
    const PoolScope scope(pool);
    buffer = allocator.allocate(kMiB, stream);
  }
  allocator = Allocator(device);
  fill(stream, buffer, 3);
  EXPECT_TRUE(holds(buffer, 3));
  buffer.reset();
}

TEST_P(MemorySuite, APoolThatIsGoneLendsNothing) {
  allocator.set_limit(8 * kMiB);
  Buffer live;
  {
    const Pool pool = allocator.create_pool({.borrow_on_oom = true});
    const PoolScope scope(pool);
    live = allocator.allocate(2 * kMiB, stream);
    const Buffer freed = allocator.allocate(6 * kMiB, stream);
  }
  stream.synchronize();
  const Buffer taken = allocator.allocate(6 * kMiB, stream);  // released by the pool, not lent
  EXPECT_EQ(allocator.statistics().retries_borrow, 0U);
  EXPECT_EQ(live_in(allocator.default_pool()), 1U);
}

TEST_P(MemorySuite, APoolThatIsGoneLendsNotEvenWhatItCannotGiveBack) {
  allocator.set_limit(2 * kMiB);
  Buffer live;
  {
    const Pool pool = allocator.create_pool({.borrow_on_oom = true});
    const PoolScope scope(pool);
    live = allocator.allocate(kMiB, stream);
    const Buffer freed = allocator.allocate(kMiB, stream);  // in the same granule
  }
  stream.synchronize();
  expect_error<OutOfMemory>([&] { static_cast<void>(allocator.allocate(kMiB, stream)); });
}

TEST_P(MemorySuite, AnIdlePoolGivesItsMemoryBackWithItsLastHandle) {
  {
    const Pool pool = allocator.create_pool({});
    const PoolScope scope(pool);
    { const Buffer freed = allocator.allocate(4 * kMiB, stream); }
    stream.synchronize();
  }
  EXPECT_EQ(reserved(), 0U);
  EXPECT_EQ(allocator.snapshot().pools.size(), 1U);
}

TEST_P(MemorySuite, PeaksOfStreamsThatAreNotAtOneTimeDoNotAddUp) {
  const Stream side = device.create_stream();
  for (int i = 0; i < 3; ++i) {
    { const Buffer first = allocator.allocate(8 * kMiB, stream); }
    { const Buffer second = allocator.allocate(6 * kMiB, side); }
  }
  EXPECT_GE(allocator.statistics().peak_live_nbytes, 8 * kMiB);
  EXPECT_LE(allocator.statistics().peak_live_nbytes, 8 * kMiB + 8 * kMiB / 64 + 2 * 48 * 1024);
  const Buffer first = allocator.allocate(8 * kMiB, stream), second = allocator.allocate(6 * kMiB, side);
  EXPECT_GE(allocator.statistics().peak_live_nbytes, 14 * kMiB);
}

TEST_P(MemorySuite, ThePeakOfAPoolIsRememberedWhenItIsGone) {
  for (int i = 0; i < 3; ++i) {
    const Pool pool = allocator.create_pool({});
    const PoolScope scope(pool);
    { const Buffer brief = allocator.allocate(64 * kMiB, stream); }
    stream.synchronize();
  }
  EXPECT_EQ(allocator.statistics().peak_reserved_nbytes, 64 * kMiB);
  EXPECT_GE(allocator.statistics().peak_live_nbytes, 64 * kMiB);
  EXPECT_LE(allocator.statistics().peak_live_nbytes, 66 * kMiB);
  allocator.reset_peaks();
  EXPECT_EQ(allocator.statistics().peak_live_nbytes, 0U);
}

TEST_P(MemorySuite, AClosedPoolGivesItsMemoryBackAsItsBlocksAreFreed) {
  std::vector<Buffer> live;
  {
    const Pool pool = allocator.create_pool({.name = "brief"});
    const PoolScope scope(pool);
    for (int i = 0; i < 3; ++i) live.push_back(allocator.allocate(4 * kMiB, stream));
  }
  EXPECT_EQ(reserved(), 12 * kMiB);
  stream.synchronize();
  EXPECT_EQ(allocator.snapshot().pools.size(), 2U);
  live.pop_back();
  EXPECT_EQ(reserved(), 8 * kMiB);
  fill(stream, live[0], 1);
  EXPECT_TRUE(holds(live[0], 1));
  live.clear();
  allocator.trim();
  EXPECT_EQ(reserved(), 0U);
  EXPECT_EQ(allocator.snapshot().pools.size(), 1U);
}

TEST_P(MemorySuite, AClosedPoolKeepsWhatAStreamHasNotCompleted) {
  const device::Hold held = hold(stream);
  {
    const Pool pool = allocator.create_pool({});
    const PoolScope scope(pool);
    const Buffer busy = allocator.allocate(4 * kMiB, stream);
    fill(stream, busy, 1);
  }
  EXPECT_EQ(reserved(), 4 * kMiB);
  held.release();
  stream.synchronize();
  allocator.trim();
  EXPECT_EQ(reserved(), 0U);
  EXPECT_EQ(allocator.snapshot().pools.size(), 1U);
}

TEST_P(MemorySuite, ThreadsFreeTheLastBlocksOfAClosedPoolTogether) {
  for (int round = 0; round < 20; ++round) {
    std::vector<std::shared_ptr<Buffer>> live;
    {
      const Pool pool = allocator.create_pool({});
      const PoolScope scope(pool);
      for (int i = 0; i < 4; ++i) live.push_back(std::make_shared<Buffer>(allocator.allocate(2 * kMiB, stream)));
    }
    stream.synchronize();
    std::vector<std::function<void()>> bodies;
    for (auto& buffer : live) bodies.emplace_back([buffer] { buffer->reset(); });
    subject->run_together(std::move(bodies));
  }
  allocator.trim();
  EXPECT_EQ(reserved(), 0U);
  EXPECT_EQ(allocator.snapshot().pools.size(), 1U);
}

TEST_P(MemorySuite, APoolIsUsedAgainAfterItWasEmptied) {
  const Pool pool = allocator.create_pool({});
  for (std::uint8_t round = 0; round < 3; ++round) {
    const PoolScope scope(pool);
    Buffer buffer = allocator.allocate(4 * kMiB, stream);
    fill(stream, buffer, round);
    EXPECT_TRUE(holds(buffer, round));
    buffer.reset();
    stream.synchronize();
    EXPECT_EQ(pool.trim(), 4 * kMiB);
  }
  EXPECT_EQ(reserved_in(pool), 0U);
}

TEST_P(MemorySuite, ManyPoolsLeaveNothing) {
  const std::size_t before = device.memory_use().own_nbytes;
  for (int i = 0; i < 1000; ++i) {
    const Pool pool = allocator.create_pool({});
    const PoolScope scope(pool);
    const Buffer buffer = allocator.allocate(512, stream);
  }
  stream.synchronize();
  allocator.trim();
  EXPECT_EQ(reserved(), 0U);
  EXPECT_EQ(allocator.snapshot().pools.size(), 1U);
  EXPECT_EQ(device.memory_use().own_nbytes, before);
}

TEST_P(MemorySuite, APoolThatDoesNotSplitHasOneBlockPerSegment) {
  const Pool whole = allocator.create_pool({.no_split = true});
  const Pool split = allocator.create_pool({});
  std::vector<Buffer> live;
  for (const Pool& pool : {whole, split}) {
    const PoolScope scope(pool);
    for (int i = 0; i < 3; ++i) live.push_back(allocator.allocate(100 * kKiB, stream));
    live.push_back(allocator.allocate(3 * kMiB, stream));
  }
  const Snapshot snapshot = whole.snapshot();
  EXPECT_EQ(snapshot.segments.size(), 4U);
  for (const SegmentView& segment : snapshot.segments) {
    EXPECT_EQ(segment.blocks.size(), 1U);
    EXPECT_FALSE(segment.is_expandable);
  }
  EXPECT_LT(split.snapshot().segments.size(), 4U);
  const std::byte* const address = live[1].data();
  live[1].reset();
  const PoolScope scope(whole);
  const Buffer again = allocator.allocate(512, stream);  // a smaller one takes all of it
  EXPECT_EQ(again.data(), address);
  EXPECT_EQ(whole.snapshot().segments.size(), 4U);
  for (const SegmentView& segment : whole.snapshot().segments) EXPECT_EQ(segment.blocks.size(), 1U);
}

TEST_P(MemorySuite, ACaptureIntoAPoolThatDoesNotSplitDoesNotSplit) {
  const Pool pool = allocator.create_pool({.no_split = true});
  GraphCapture capture(pool, stream);
  Buffer first = allocator.allocate(kMiB, stream);
  fill(stream, first, 1);
  first.reset();
  const Buffer second = allocator.allocate(512, stream);
  const CapturedGraph graph = capture.end();
  for (const SegmentView& segment : pool.snapshot().segments) EXPECT_EQ(segment.blocks.size(), 1U);
}

TEST_P(MemorySuite, APoolIsTrimmedInsideItsScope) {
  const Pool pool = allocator.create_pool({});
  const PoolScope scope(pool);
  const Buffer live = allocator.allocate(100 * kKiB, stream);
  { const Buffer freed = allocator.allocate(4 * kMiB, stream); }
  stream.synchronize();
  EXPECT_EQ(pool.trim(), 4 * kMiB);
  EXPECT_EQ(reserved_in(pool), 2 * kMiB);
  EXPECT_EQ(pool.trim(), 0U);
}

TEST_P(MemorySuite, ASnapshotOfAPoolShowsItAlone) {
  const Pool pool = allocator.create_pool({.name = "alone"});
  const Buffer outside = allocator.allocate(kMiB, stream);
  const PoolScope scope(pool);
  const Buffer inside = allocator.allocate(3 * kMiB, stream);
  const Snapshot snapshot = pool.snapshot();
  ASSERT_EQ(snapshot.pools.size(), 1U);
  EXPECT_EQ(snapshot.pools[0].name, "alone");
  EXPECT_EQ(snapshot.totals().live_nbytes, 3 * kMiB);
  EXPECT_EQ(snapshot.totals(), allocator.snapshot().totals(pool.id()));
  for (const SegmentView& segment : snapshot.segments) EXPECT_EQ(segment.pool, pool.id());
}

TEST_P(MemorySuite, GrowthCallbacksFollowWhatIsMapped) {
  const Pool pool = allocator.create_pool({});
  std::vector<Buffer> live;
  {
    const PoolScope scope(pool);
    live.push_back(allocator.allocate(4 * kMiB, stream));
    const Registrations registered(pool);  // existing segments come first
    EXPECT_EQ(registered.calls, 2);
    EXPECT_TRUE(registered.match());
    live.push_back(allocator.allocate(8 * kMiB, stream));  // then each growth
    live.push_back(allocator.allocate(64 * kKiB, other));
    EXPECT_TRUE(registered.match());
    live.clear();
    device.synchronize();
    const int before = registered.calls;
    live.push_back(allocator.allocate(14 * kMiB, stream));  // which may move memory
    EXPECT_GT(registered.calls, before);
    EXPECT_TRUE(registered.match());
    live.clear();
    device.synchronize();
    pool.trim();  // and each released chunk
    EXPECT_TRUE(registered.all.empty());
  }
  const PoolScope scope(pool);
  const Buffer unseen = allocator.allocate(4 * kMiB, stream);
}

TEST_P(MemorySuite, GrowthCallbacksFollowFixedSegments) {
  const Pool pool = allocator.create_pool({.no_split = true});
  const PoolScope scope(pool);
  std::vector<Buffer> live;
  live.push_back(allocator.allocate(4 * kMiB, stream));
  const Registrations registered(pool);
  EXPECT_EQ(registered.calls, 1);
  live.push_back(allocator.allocate(64 * kKiB, stream));
  EXPECT_EQ(registered.calls, 2);
  EXPECT_TRUE(registered.match());
  live.clear();
  stream.synchronize();
  pool.trim();
  EXPECT_EQ(registered.calls, 4);
  EXPECT_TRUE(registered.all.empty());
}

TEST_P(MemorySuite, APieceThatCouldNotGoIsRegisteredAgain) {
  const Pool pool = allocator.create_pool({});
  const PoolScope scope(pool);
  { const Buffer freed = allocator.allocate(2 * kMiB, stream); }
  stream.synchronize();
  const Registrations registered(pool);
  device.faults().fail(device::DriverCall::kUnmap, 1);
  expect_error<DeviceError>([&] { pool.trim(); });
  device.faults().clear();
  EXPECT_TRUE(registered.match());
  EXPECT_EQ(reserved_in(pool), 2 * kMiB);
  EXPECT_EQ(pool.trim(), 2 * kMiB);
  EXPECT_TRUE(registered.match());
}

TEST_P(MemorySuite, ABlockWhoseRegistrationFailsIsNotLost) {
  for (const bool no_split : {false, true}) {
    const Pool pool = allocator.create_pool({.no_split = no_split});
    const PoolScope scope(pool);
    const std::uint64_t number =
        pool.on_growth([](const Growth&) { TESSERA_THROW(NotSupported, "it cannot be registered"); });
    expect_error<NotSupported>([&] { static_cast<void>(allocator.allocate(2 * kMiB, stream)); });
    EXPECT_EQ(pool.snapshot().totals().cached_nbytes, 2 * kMiB);
    expect_error<NotSupported>([&] { pool.trim(); });
    EXPECT_EQ(pool.snapshot().totals().cached_nbytes, 2 * kMiB);
    pool.off_growth(number);
    EXPECT_EQ(pool.trim(), 2 * kMiB);
  }
}

}  // namespace tessera::memory::suite
