// Limits, the retry sequence, and failures.
#include <cmath>
#include <limits>
#include <thread>
#include <nlohmann/json.hpp>

#include "tessera/memory/device_upstream.h"
#include "tessera/memory/graph_capture.h"
#include "tessera/memory/label.h"
#include "tessera/memory/oom_report.h"
#include "tessera/memory/suite/memory_suite.h"
#include "tessera/memory/testing/decorators.h"

namespace tessera::memory::suite {

namespace {

// Returns an allocator of a device that seems to have this much memory.
Allocator with_capacity(const Device& device, std::size_t nbytes, const Policy& policy = {}) {
  return Allocator(device,
                   {.policy = policy,
                    .upstream = std::make_shared<memory::testing::LimitUpstream>(device_upstream(device), nbytes),
                    .name = device.name()});
}

// Leaves this many bytes cached in a pool, for the stream, with all work on them finished.
void leave_cached(const Allocator& allocator, const Pool& pool, std::size_t nbytes, const Stream& stream) {
  const PoolScope scope(pool);
  { const Buffer brief = allocator.allocate(nbytes, stream); }
  stream.synchronize();
}

std::uint64_t sum_of(const nlohmann::json& rows) {
  std::uint64_t sum = 0;
  for (const auto& row : rows) sum += row.at("nbytes").get<std::uint64_t>();
  return sum;
}

}  // namespace

TEST_P(MemorySuite, MapsNoMoreThanTheLimit) {
  allocator.set_limit(8 * kMiB);
  EXPECT_EQ(allocator.policy().limit_nbytes, 8 * kMiB);
  const Buffer all = allocator.allocate(8 * kMiB, stream);
  expect_error<OutOfMemoryError>([&] { static_cast<void>(allocator.allocate(512, stream)); }, {"limit", "8 MiB"});
  EXPECT_EQ(reserved(), 8 * kMiB);
  EXPECT_EQ(allocator.statistics().out_of_memory, 1U);
  allocator.set_limit(0);
  EXPECT_TRUE(allocator.allocate(512, stream));
}

TEST_P(MemorySuite, KeepsTheLimitOfThePolicyInAllPoolsTogether) {
  use_policy({.limit_nbytes = 8 * kMiB});
  const Pool pool = allocator.create_pool({});
  const Buffer outside = allocator.allocate(6 * kMiB, stream);
  const PoolScope scope(pool);
  const Buffer inside = allocator.allocate(2 * kMiB, other);
  expect_error<OutOfMemoryError>([&] { static_cast<void>(allocator.allocate(2 * kMiB, stream)); });
}

TEST_P(MemorySuite, ASegmentToShareThatDoesNotFitIsNoReasonToRefuse) {
  use_policy({.expandable = false, .limit_nbytes = 12 * kMiB});  // a shared segment would take 20 MiB
  const Buffer first = allocator.allocate(3 * kMiB, stream);
  EXPECT_EQ(reserved(), 4 * kMiB);
  const Buffer second = allocator.allocate(8 * kMiB, stream);
  EXPECT_EQ(reserved(), 12 * kMiB);
  expect_error<OutOfMemoryError>([&] { static_cast<void>(allocator.allocate(2 * kMiB, stream)); },
                                 {"cannot allocate 2 MiB", "limit"});
}

TEST_P(MemorySuite, LimitsToAShareOfTheCapacity) {
  allocator = with_capacity(device, 64 * kMiB);
  allocator.set_limit_fraction(0.5);
  const auto share = [](double fraction) { return static_cast<std::size_t>(fraction * 64 * kMiB); };
  {
    const Buffer fits = allocator.allocate(share(0.499), stream);
    EXPECT_EQ(reserved(), 32 * kMiB);
  }
  stream.synchronize();
  allocator.trim();
  const Buffer other_use = allocator.allocate(512, stream);
  expect_error<OutOfMemoryError>([&] { static_cast<void>(allocator.allocate(share(0.5), stream)); });
  allocator.set_limit_fraction(1);
  EXPECT_TRUE(allocator.allocate(share(0.5), stream));
}

TEST_P(MemorySuite, RefusesAShareThatIsNone) {
  allocator.set_limit(8 * kMiB);
  for (const double fraction : {0.0, -0.1, 1.1, std::nan(""), std::numeric_limits<double>::infinity()})
    expect_error<InvalidArgument>([&] { allocator.set_limit_fraction(fraction); }, {"set_limit_fraction"});
  EXPECT_EQ(allocator.policy().limit_nbytes, 8 * kMiB);
}

TEST_P(MemorySuite, ALimitBelowWhatIsCachedIsReachedByGivingBack) {
  leave_cached(allocator, allocator.default_pool(), 8 * kMiB, stream);
  allocator.set_limit(4 * kMiB);
  expect_error<OutOfMemoryError>([&] { static_cast<void>(allocator.allocate(12 * kMiB, stream)); });
  const Buffer fits = allocator.allocate(4 * kMiB, stream);
  EXPECT_EQ(reserved(), 4 * kMiB);
}

TEST_P(MemorySuite, APendingBlockThatHasCompletedSavesARequest) {
  use_policy({.cross_stream = CrossStream::kGrow, .limit_nbytes = 8 * kMiB});
  Buffer buffer = allocator.allocate(8 * kMiB, stream);
  buffer.use_on(other);
  fill(other, buffer, 1);
  other.synchronize();
  buffer.reset();  // the stream is idle, but has not been queried since
  const Buffer saved = allocator.allocate(8 * kMiB, stream);
  EXPECT_EQ(allocator.statistics().retries_pending, 1U);
  EXPECT_EQ(allocator.statistics().retries_trim, 0U);
}

TEST_P(MemorySuite, GivingBackCachedMemorySavesARequest) {
  use_policy({.expandable = false, .limit_nbytes = 40 * kMiB});
  leave_cached(allocator, allocator.default_pool(), 4 * kMiB, stream);
  const Buffer saved = allocator.allocate(30 * kMiB, stream);
  EXPECT_EQ(allocator.statistics().retries_trim, 1U);
  EXPECT_EQ(allocator.statistics().retries_synchronize, 0U);
  EXPECT_EQ(reserved(), 30 * kMiB);
}

TEST_P(MemorySuite, WaitingForTheStreamsSavesARequest) {
  use_policy({.limit_nbytes = 8 * kMiB});
  const device::Hold held = hold(other);
  Buffer buffer = allocator.allocate(8 * kMiB, other);
  fill(other, buffer, 1);
  buffer.reset();
  device.faults().count_calls(true);
  Buffer saved;
  subject->run_together({[&] { saved = allocator.allocate(8 * kMiB, stream); },
                         [&] {
                           // Releases only when the other thread waits for the streams. Recording lets others run.
                           const Stream idle = device.create_stream();
                           const Event event = device.create_event();
                           while (device.faults().calls(device::DriverCall::kSynchronize) == 0) {
                             idle.record(event);
                             std::this_thread::yield();
                           }
                           held.release();
                         }});
  device.faults().count_calls(false);
  EXPECT_TRUE(saved);
  EXPECT_EQ(allocator.statistics().retries_synchronize, 1U);
  EXPECT_EQ(reserved(), 8 * kMiB);
}

TEST_P(MemorySuite, WaitsForNoStreamWhereThePolicyForbidsIt) {
  use_policy({.limit_nbytes = 8 * kMiB, .may_synchronize = false});
  hold(other);
  Buffer buffer = allocator.allocate(8 * kMiB, other);
  fill(other, buffer, 1);
  buffer.reset();
  expect_error<OutOfMemoryError>([&] { static_cast<void>(allocator.allocate(8 * kMiB, stream)); });
}

TEST_P(MemorySuite, APoolThatLendsSavesARequest) {
  allocator.set_limit(8 * kMiB);
  const Pool pool = allocator.create_pool({.borrow_on_oom = true});
  leave_cached(allocator, pool, 8 * kMiB, other);
  Buffer saved = allocator.allocate(8 * kMiB, stream);
  EXPECT_EQ(allocator.statistics().retries_borrow, 1U);
  EXPECT_EQ(pool.snapshot().totals().live_blocks, 1U);
  saved.reset();
  EXPECT_EQ(pool.snapshot().totals().live_blocks, 0U);
}

TEST_P(MemorySuite, APoolThatDoesNotLendKeepsItsMemory) {
  allocator.set_limit(8 * kMiB);
  const Pool pool = allocator.create_pool({.name = "hoard"});
  leave_cached(allocator, pool, 8 * kMiB, stream);
  try {
    static_cast<void>(allocator.allocate(8 * kMiB, stream));
    FAIL() << "no error was thrown";
  } catch (const OutOfMemoryError& error) {
    EXPECT_EQ(error.cause(), OomCause::kPrivatePool) << error.report();
    EXPECT_NE(error.message().find("hoard"), std::string::npos) << error.message();
  }
  EXPECT_EQ(pool.snapshot().totals().cached_nbytes, 8 * kMiB);
}

TEST_P(MemorySuite, ACallbackSavesARequest) {
  allocator.set_limit(8 * kMiB);
  Buffer cache = allocator.allocate(8 * kMiB, stream);
  std::vector<std::size_t> asked;
  const std::uint64_t number = allocator.on_pressure([&](std::size_t nbytes) {
    asked.push_back(nbytes);
    static_cast<void>(allocator.statistics());  // no lock is held
    const bool has_freed = static_cast<bool>(cache);
    cache.reset();
    return has_freed;
  });
  Buffer saved = allocator.allocate(4 * kMiB, stream);
  EXPECT_EQ(asked, std::vector<std::size_t>{4 * kMiB});
  EXPECT_EQ(allocator.statistics().retries_callback, 1U);
  expect_error<OutOfMemoryError>([&] { static_cast<void>(allocator.allocate(8 * kMiB, stream)); });
  EXPECT_EQ(asked.size(), 2U);
  allocator.off_pressure(number);
  expect_error<OutOfMemoryError>([&] { static_cast<void>(allocator.allocate(8 * kMiB, stream)); });
  EXPECT_EQ(asked.size(), 2U);
}

TEST_P(MemorySuite, ACallbackIsTheLastResort) {
  allocator.set_limit(8 * kMiB);
  const Pool pool = allocator.create_pool({.borrow_on_oom = true});
  leave_cached(allocator, pool, 8 * kMiB, stream);
  bool is_called = false;
  allocator.on_pressure([&](std::size_t) { return is_called = true; });
  const Buffer saved = allocator.allocate(8 * kMiB, stream);
  EXPECT_FALSE(is_called);
}

TEST_P(MemorySuite, CollectsCachedMemoryThatIsOlderThanTheMean) {
  use_policy({.expandable = false, .limit_nbytes = 64 * kMiB, .collect_above = 0.5});
  std::vector<Buffer> live;
  for (const std::size_t size : {12, 14, 16}) live.push_back(allocator.allocate(size * kMiB, stream));
  for (Buffer& buffer : live) buffer.reset();  // the ages are 2, 1 and 0 frees
  stream.synchronize();
  const Buffer next = allocator.allocate(20 * kMiB, stream);
  EXPECT_EQ(allocator.statistics().collections, 1U);
  EXPECT_EQ(reserved(), 36 * kMiB);
}

TEST_P(MemorySuite, CollectsNothingBelowTheShare) {
  use_policy({.expandable = false, .limit_nbytes = 64 * kMiB, .collect_above = 0.9});
  leave_cached(allocator, allocator.default_pool(), 12 * kMiB, stream);
  const Buffer next = allocator.allocate(14 * kMiB, stream);
  EXPECT_EQ(allocator.statistics().collections, 0U);
  EXPECT_EQ(reserved(), 26 * kMiB);
}

TEST_P(MemorySuite, CollectsByTheCapacityWhereThereIsNoLimit) {
  const Allocator small = with_capacity(device, 128 * kMiB, {.expandable = false, .collect_above = 0.5});
  {
    const Buffer one = small.allocate(34 * kMiB, stream);
    const Buffer two = small.allocate(34 * kMiB, stream);
  }
  stream.synchronize();
  const Buffer next = small.allocate(40 * kMiB, stream);
  EXPECT_EQ(small.statistics().collections, 1U);
}

TEST_P(MemorySuite, ABlockOfManyPiecesIsCollectedWhole) {
  use_policy({.collect_above = 0.2});
  Buffer old = allocator.allocate(32 * kMiB, stream);
  const Buffer between = allocator.allocate(2 * kMiB, stream);
  old.reset();
  for (int i = 0; i < 10; ++i) {
    const Buffer young = allocator.allocate(4 * kKiB, stream);
  }
  stream.synchronize();
  allocator.set_limit(128 * kMiB);
  const Buffer next = allocator.allocate(40 * kMiB, stream);
  EXPECT_EQ(allocator.statistics().collections, 1U);
  EXPECT_EQ(allocator.statistics().unmaps, 4U);
}

TEST_P(MemorySuite, TheErrorNamesTheSizeTheDeviceAndItsMemory) {
  if (!use_limited(64 * kMiB)) GTEST_SKIP() << "this device cannot be limited";
  const Buffer most = allocator.allocate(48 * kMiB, stream);
  try {
    static_cast<void>(allocator.allocate(32 * kMiB, stream));
    FAIL() << "no error was thrown";
  } catch (const OutOfMemoryError& error) {
    EXPECT_NE(error.message().find("32 MiB"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find(device.name()), std::string::npos) << error.message();
    EXPECT_NE(error.report().find("64 MiB  device"), std::string::npos) << error.report();
    EXPECT_EQ(error.report().find(error.message()), 0U) << error.report();
    const auto account = nlohmann::json::parse(error.json()).at("account");
    EXPECT_EQ(account.at("total_nbytes"), 64 * kMiB);
    EXPECT_EQ(account.at("live_nbytes"), 48 * kMiB);
  }
}

TEST_P(MemorySuite, TheSumsOfTheReportClose) {
  use_policy({.cross_stream = CrossStream::kGrow, .limit_nbytes = 32 * kMiB, .may_synchronize = false});
  hold(other);
  const Label outer("model");
  const Buffer live = allocator.allocate(5 * kMiB + 100, stream);
  const Label inner("optimizer");
  const Buffer more = allocator.allocate(3 * kMiB, stream);
  Buffer pending = allocator.allocate(4 * kMiB, stream);
  pending.use_on(other);
  fill(other, pending, 1);
  pending.reset();
  const Pool pool = allocator.create_pool({.name = "private"});
  leave_cached(allocator, pool, 2 * kMiB, stream);
  try {
    static_cast<void>(allocator.allocate(40 * kMiB, stream));
    FAIL() << "no error was thrown";
  } catch (const OutOfMemoryError& error) {
    const auto json = nlohmann::json::parse(error.json());
    const auto& account = json.at("account");
    const auto get = [&](const char* name) { return account.at(name).get<std::uint64_t>(); };
    EXPECT_TRUE(account.at("closes").get<bool>()) << error.json();
    EXPECT_EQ(get("total_nbytes") + get("excess_nbytes"), get("free_nbytes") + get("other_processes_nbytes") +
                                                              get("own_outside_nbytes") + get("unattributed_nbytes") +
                                                              get("reserved_nbytes"));
    EXPECT_EQ(get("reserved_nbytes"),
              get("live_nbytes") + get("rounding_nbytes") + get("pending_nbytes") + get("cached_nbytes"));
    EXPECT_EQ(get("live_nbytes"), 8 * kMiB + 100);
    EXPECT_EQ(get("pending_nbytes"), 4 * kMiB);
    EXPECT_EQ(sum_of(json.at("live_by_label")), get("live_nbytes"));
    EXPECT_EQ(sum_of(json.at("pending_by_stream")), get("pending_nbytes"));
    EXPECT_EQ(sum_of(json.at("cached_by_pool_and_stream")), get("cached_nbytes"));
    EXPECT_EQ(json.at("label"), "optimizer");
    EXPECT_EQ(json.at("requested_nbytes"), 40 * kMiB);
    EXPECT_EQ(json.at("live_by_label").size(), 2U);
    EXPECT_FALSE(json.at("ladder").empty());
    EXPECT_NE(error.report().find("'private'"), std::string::npos) << error.report();
  }
}

TEST_P(MemorySuite, ObserversSeeTheReportBeforeTheErrorIsSeen) {
  allocator.set_limit(8 * kMiB);
  std::vector<std::string> seen;
  allocator.on_out_of_memory([&](const std::string& report) {
    seen.push_back(report);
    static_cast<void>(allocator.snapshot());  // no lock is held
  });
  try {
    static_cast<void>(allocator.allocate(16 * kMiB, stream));
    FAIL() << "no error was thrown";
  } catch (const OutOfMemoryError& error) {
    EXPECT_EQ(seen, std::vector<std::string>{error.report()});
  }
}

TEST_P(MemorySuite, ARequestLargerThanTheDeviceMapsNothing) {
  const std::size_t total = device.memory_use().total_nbytes;
  try {
    static_cast<void>(allocator.allocate(total + kMiB, stream));
    FAIL() << "no error was thrown";
  } catch (const OutOfMemoryError& error) {
    EXPECT_EQ(error.cause(), OomCause::kLargerThanDevice) << error.report();
  }
  EXPECT_EQ(allocator.statistics().maps, 0U);
  EXPECT_TRUE(allocator.allocate(kMiB, stream));
}

TEST_P(MemorySuite, ARequestBesideWhichNothingElseFitsMapsNothing) {
  allocator = with_capacity(device, 64 * kMiB);
  const Buffer held = allocator.allocate(32 * kMiB, stream);
  const std::uint64_t maps = allocator.statistics().maps;
  expect_error<OutOfMemoryError>([&] { static_cast<void>(allocator.allocate(34 * kMiB, stream)); });
  EXPECT_EQ(allocator.statistics().maps, maps);
  EXPECT_TRUE(allocator.allocate(32 * kMiB, stream));
}

TEST_P(MemorySuite, WorkAfterAFailureIsUnaffected) {
  allocator = with_capacity(device, 32 * kMiB);
  Buffer half = allocator.allocate(16 * kMiB, stream);
  fill(stream, half, 5);
  expect_error<OutOfMemoryError>([&] { static_cast<void>(allocator.allocate(20 * kMiB, stream)); });
  const Buffer small = allocator.allocate(4 * kMiB, other);
  fill(other, small, 6);
  EXPECT_TRUE(holds(half, 5));
  EXPECT_TRUE(holds(small, 6));
  half.reset();
  const Buffer retried = allocator.allocate(20 * kMiB, stream);
  fill(stream, retried, 7);
  EXPECT_TRUE(holds(retried, 7));
}

TEST_P(MemorySuite, GrowsInUnevenStepsUpToTheLimit) {
  allocator.set_limit(60 * kMiB);
  {
    const Buffer a = allocator.allocate(10 * kMiB, stream);
    const Buffer b = allocator.allocate(40 * kMiB, stream);
    const Buffer c = allocator.allocate(6 * kMiB, stream);
    expect_error<OutOfMemoryError>([&] { static_cast<void>(allocator.allocate(20 * kMiB, stream)); });
  }
  stream.synchronize();
  allocator.trim();
  allocator.set_limit(32 * kMiB);
  const Buffer a = allocator.allocate(10 * kMiB, stream);
  expect_error<OutOfMemoryError>([&] { static_cast<void>(allocator.allocate(40 * kMiB, stream)); });
  EXPECT_TRUE(allocator.allocate(20 * kMiB, stream));
}

TEST_P(MemorySuite, ACaptureThatFindsNoRoomGoesOn) {
  leave_cached(allocator, allocator.default_pool(), 8 * kMiB, other);
  allocator.set_limit(16 * kMiB);
  const Pool pool = allocator.create_pool({});
  GraphCapture capture(pool, stream);
  const Buffer first = allocator.allocate(4 * kMiB, stream);
  const std::uint64_t unmaps = allocator.statistics().unmaps;
  try {
    static_cast<void>(allocator.allocate(8 * kMiB, stream));
    FAIL() << "no error was thrown";
  } catch (const OutOfMemoryError& error) {
    EXPECT_TRUE(nlohmann::json::parse(error.json()).at("in_capture").get<bool>());
  }
  EXPECT_EQ(allocator.statistics().unmaps, unmaps);
  fill(stream, first, 8);
  const CapturedGraph graph = capture.end();
  graph.replay(stream);
  EXPECT_TRUE(holds(first, 8));
}

TEST_P(MemorySuite, AnEstimateCountsNowhere) {
  allocator.set_limit(4 * kMiB);
  const Pool pool = allocator.create_pool({});
  const std::size_t estimated =
      estimate(pool, stream, [&] { const Buffer large = allocator.allocate(16 * kMiB, stream); });
  EXPECT_EQ(estimated, 16 * kMiB);
  const Statistics after = allocator.statistics();
  EXPECT_EQ(after.peak_reserved_nbytes, 0U);
  EXPECT_EQ(after.peak_live_nbytes, 0U);
  EXPECT_EQ(after.maps, 0U);
  EXPECT_TRUE(allocator.allocate(4 * kMiB, stream));
}

TEST_P(MemorySuite, ManyThreadsAtTheLimitAllGetTheirTurn) {
  allocator.set_limit(16 * kMiB);
  std::vector<std::function<void()>> bodies;
  for (int thread = 0; thread < 4; ++thread) {
    bodies.emplace_back([this, mine = device.create_stream()] {
      for (int i = 0; i < 25; ++i) {
        const Buffer buffer = allocator.allocate((1 + static_cast<std::size_t>(i) % 4) * kMiB, mine);
        fill(mine, buffer, 1);
      }
    });
  }
  subject->run_together(std::move(bodies));
  EXPECT_LE(allocator.statistics().peak_reserved_nbytes, 16 * kMiB);
}

}  // namespace tessera::memory::suite
