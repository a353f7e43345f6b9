// Decorators keep the form of the wrapped upstream, count exactly under failures, and nest. Some cases are behaviors of
// the limiting, tracking and statistics adaptors of RMM.
#include "tessera/memory/testing/decorators.h"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <regex>
#include <sstream>
#include <thread>
#include <vector>

#include "tessera/memory/null_upstream.h"

namespace tessera::memory::testing {
namespace {

constexpr std::size_t kUnit = 1024;
constexpr std::size_t kMany = std::size_t{1} << 40;

std::shared_ptr<NullUpstream> null(std::size_t capacity = kMany) {
  return std::make_shared<NullUpstream>(
      NullOptions{.capacity_nbytes = capacity, .granularity = kUnit, .name = "nothing"});
}

// A fixed upstream that checks nothing, like a careless custom one.
class LooseUpstream final : public Upstream {
 public:
  [[nodiscard]] std::string name() const override { return "loose"; }
  [[nodiscard]] std::size_t granularity() const override { return 512; }
  [[nodiscard]] std::size_t capacity_nbytes() const override { return kMany; }
  std::byte* allocate(std::size_t nbytes) override {
    next_ += nbytes;
    return reinterpret_cast<std::byte*>(next_);
  }
  void free(std::byte* /*address*/, std::size_t /*nbytes*/) override {}

 private:
  std::uintptr_t next_ = NullUpstream::kFirstAddress;
};

// Has one address. Calls `meanwhile` while it is released.
class OneAddressUpstream final : public Upstream {
 public:
  std::function<void()> meanwhile;
  [[nodiscard]] std::string name() const override { return "one address"; }
  [[nodiscard]] std::size_t granularity() const override { return 512; }
  [[nodiscard]] std::size_t capacity_nbytes() const override { return kMany; }
  std::byte* allocate(std::size_t /*nbytes*/) override {
    return reinterpret_cast<std::byte*>(NullUpstream::kFirstAddress);
  }
  void free(std::byte* /*address*/, std::size_t /*nbytes*/) override {
    if (meanwhile) meanwhile();
  }
};

template <class F>
std::string message_of(F&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.message();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

// Forwards everything and records the hooks.
class WatchUpstream final : public UpstreamDecorator {
 public:
  using UpstreamDecorator::UpstreamDecorator;
  std::vector<std::string> seen;

 private:
  void before(const UpstreamEvent& event) override { note("before", event); }
  void after(const UpstreamEvent& event) noexcept override { note("after", event); }
  void failed(const UpstreamEvent& event) noexcept override { note("failed", event); }
  void note(const char* when, const UpstreamEvent& event) {
    seen.push_back(std::string(when) + " " + std::string(to_string(event.call)));
  }
};

TEST(UpstreamDecorator, HasTheFormOfWhatItWraps) {
  DelayUpstream expandable(null(), std::chrono::nanoseconds(0));
  EXPECT_EQ(expandable.as_expandable(), &expandable);
  EXPECT_EQ(expandable.name(), "nothing");
  EXPECT_EQ(expandable.granularity(), kUnit);
  EXPECT_EQ(expandable.capacity_nbytes(), kMany);
  const auto fixed = std::make_shared<DelayUpstream>(std::make_shared<LooseUpstream>(), std::chrono::nanoseconds(0));
  EXPECT_EQ(fixed->as_expandable(), nullptr);
  DelayUpstream twice(fixed, std::chrono::nanoseconds(0));
  EXPECT_EQ(twice.as_expandable(), nullptr);
  EXPECT_EQ(message_of([&] { twice.map(nullptr, 512); }),
            "map: upstream loose supports only complete segments; use allocate and free");
  EXPECT_THROW(twice.reserve(512), NotSupported);
  EXPECT_NE(twice.allocate(512), nullptr);
  EXPECT_THROW(DelayUpstream(nullptr, std::chrono::nanoseconds(0)), InvalidArgument);
}

TEST(UpstreamDecorator, SeesEveryCallBeforeAndAfter) {
  WatchUpstream watch(null(4 * kUnit));
  std::byte* const base = watch.reserve(8 * kUnit);
  watch.map(base, kUnit);
  watch.move(base, base + kUnit, kUnit);
  EXPECT_THROW(watch.map(base, 8 * kUnit), Error);
  watch.unmap(base + kUnit, kUnit);
  watch.release(base, 8 * kUnit);
  watch.free(watch.allocate(kUnit), kUnit);
  EXPECT_EQ(watch.seen, (std::vector<std::string>{"before reserve", "after reserve", "before map", "after map",
                                                  "before move", "after move", "before map", "failed map",
                                                  "before unmap", "after unmap", "before release", "after release",
                                                  "before allocate", "after allocate", "before free", "after free"}));
}

TEST(LimitUpstream, RefusesWhatIsTooBigAndNamesAllNumbers) {
  LimitUpstream limit(null(), 10 * kUnit);
  EXPECT_EQ(limit.capacity_nbytes(), 10 * kUnit);
  std::byte* const held = limit.allocate(4 * kUnit);
  EXPECT_EQ(message_of([&] { limit.allocate(7 * kUnit); }),
            "allocate: 7 KiB exceed the limit of nothing: 10 KiB, 4 KiB in use");
  EXPECT_THROW(limit.allocate(std::size_t{0} - kUnit), OutOfMemory);
  EXPECT_EQ(limit.held_nbytes(), 4 * kUnit);
  limit.allocate(6 * kUnit);
  EXPECT_THROW(limit.allocate(kUnit), OutOfMemory);
  limit.free(held, 4 * kUnit);
  EXPECT_EQ(limit.held_nbytes(), 6 * kUnit);
}

TEST(LimitUpstream, CountsExactlyWhenTheUpstreamFails) {
  const auto fail = std::make_shared<FailUpstream>(null());
  LimitUpstream limit(fail, 10 * kUnit);
  for (int i = 0; i < 20; ++i) {
    fail->fail_at(1);
    EXPECT_THROW(limit.allocate(9 * kUnit), OutOfMemory);
    EXPECT_EQ(limit.held_nbytes(), 0u);
  }
  std::byte* const held = limit.allocate(9 * kUnit);
  fail->fail_at(1, ErrorKind::kDevice);
  EXPECT_THROW(limit.free(held, 9 * kUnit), DeviceError);
  EXPECT_EQ(limit.held_nbytes(), 9 * kUnit);  // still held
  limit.free(held, 9 * kUnit);
  EXPECT_EQ(limit.held_nbytes(), 0u);
}

TEST(LimitUpstream, FreesMakeRoom) {
  LimitUpstream limit(null(), 4 * kUnit);
  for (int i = 0; i < 10; ++i) {
    std::byte* const held = limit.allocate(3 * kUnit);
    EXPECT_THROW(limit.allocate(2 * kUnit), OutOfMemory);
    limit.free(held, 3 * kUnit);
  }
}

TEST(LimitUpstream, CountsMappingAndNeitherAddressesNorMoves) {
  LimitUpstream limit(null(), 4 * kUnit);
  std::byte* const base = limit.reserve(1000 * kUnit);
  EXPECT_EQ(limit.held_nbytes(), 0u);
  limit.map(base, 3 * kUnit);
  limit.move(base, base + 10 * kUnit, 3 * kUnit);
  EXPECT_EQ(limit.held_nbytes(), 3 * kUnit);
  EXPECT_THROW(limit.map(base, 2 * kUnit), OutOfMemory);
  limit.unmap(base + 10 * kUnit, 3 * kUnit);
  limit.map(base, 4 * kUnit);
}

TEST(LimitUpstream, GivingBackWhatItNeverGaveDoesNotUnderflow) {
  LimitUpstream limit(std::make_shared<LooseUpstream>(), 4 * kUnit);
  limit.free(limit.allocate(kUnit), 2 * kUnit);
  EXPECT_EQ(limit.held_nbytes(), 0u);
  EXPECT_THROW(limit.allocate(5 * kUnit), OutOfMemory);
}

TEST(LimitUpstream, HoldsAmongManyThreads) {
  const auto inner = null();
  LimitUpstream limit(inner, 4 * kUnit);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        try {
          limit.free(limit.allocate(2 * kUnit), 2 * kUnit);
        } catch (const OutOfMemory&) {
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(limit.held_nbytes(), 0u);
  EXPECT_LE(inner->counts().peak_mapped_nbytes, 4 * kUnit);
}

std::vector<std::string> lines_of(const std::ostringstream& out) {
  std::vector<std::string> lines;
  std::istringstream in(out.str());
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string hex(const void* pointer) {
  std::ostringstream out;
  out << "0x" << std::hex << reinterpret_cast<std::uintptr_t>(pointer);
  return out.str();
}

// Returns the line without thread and time, after checking their form.
std::string action_of(const std::string& line) {
  static const std::regex form(R"(^\d+,\d\d:\d\d:\d\d:\d{6},(.*)$)");
  std::smatch parts;
  EXPECT_TRUE(std::regex_match(line, parts, form)) << line;
  return parts[1];
}

TEST(LogUpstream, WritesRmmsCsv) {
  std::ostringstream out;
  LogUpstream log(null(8 * kUnit), out);
  std::byte* const base = log.reserve(100 * kUnit);
  log.map(base, 2 * kUnit);
  log.move(base, base + 4 * kUnit, 2 * kUnit);
  EXPECT_THROW(log.map(base + 10 * kUnit, 7 * kUnit), OutOfMemory);
  log.unmap(base + 4 * kUnit, 2 * kUnit);
  EXPECT_THROW(log.unmap(base, kUnit), InvalidArgument);
  log.release(base, 100 * kUnit);
  std::byte* const segment = log.allocate(kUnit);
  log.free(segment, kUnit);
  EXPECT_THROW(log.reserve(1), InvalidArgument);
  const auto lines = lines_of(out);
  const std::vector<std::string> expected = {
      "allocate," + hex(base) + ",2048,0x0",
      "free," + hex(base) + ",2048,0x0",
      "allocate," + hex(base + 4 * kUnit) + ",2048,0x0",
      "allocate failure,0x0,7168,0x0",
      "free," + hex(base + 4 * kUnit) + ",2048,0x0",
      "allocate," + hex(segment) + ",1024,0x0",
      "free," + hex(segment) + ",1024,0x0",
      "allocate failure,0x0,1,0x0",
  };
  ASSERT_EQ(lines.size(), expected.size() + 1);
  EXPECT_EQ(lines[0], "Thread,Time,Action,Pointer,Size,Stream");
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(action_of(lines[i + 1]), expected[i]);
}

// Another thread gets the address before the call that released it has returned; its line must come second. The wait
// only gives a fault time to occur.
TEST(LogUpstream, APointerHasOneOwnerAtATime) {
  std::ostringstream out;
  const auto inner = std::make_shared<OneAddressUpstream>();
  LogUpstream log(inner, out);
  std::byte* const address = log.allocate(kUnit);
  std::thread next;
  std::promise<void> done;
  inner->meanwhile = [&] {
    next = std::thread([&] {
      log.allocate(kUnit);
      done.set_value();
    });
    done.get_future().wait_for(std::chrono::milliseconds(20));
  };
  log.free(address, kUnit);
  next.join();
  const auto lines = lines_of(out);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_TRUE(action_of(lines[2]).starts_with("free,")) << out.str();
  EXPECT_TRUE(action_of(lines[3]).starts_with("allocate,")) << out.str();
}

TEST(LogUpstream, LinesOfThreadsDoNotMix) {
  std::ostringstream out;
  LogUpstream log(null(), out);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) log.free(log.allocate(kUnit), kUnit);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto lines = lines_of(out);
  ASSERT_EQ(lines.size(), 801u);
  for (std::size_t i = 1; i < lines.size(); ++i) EXPECT_FALSE(action_of(lines[i]).empty());
}

TEST(StatisticsUpstream, CountsValuePeakAndTotal) {
  StatisticsUpstream statistics(null());
  std::vector<std::byte*> held;
  for (int i = 0; i < 10; ++i) held.push_back(statistics.allocate(5 * kUnit));
  for (int i = 9; i >= 0; i -= 2) {
    statistics.free(held[static_cast<std::size_t>(i)], 5 * kUnit);
  }
  std::byte* const base = statistics.reserve(8 * kUnit);
  statistics.map(base, 2 * kUnit);
  statistics.move(base, base + 4 * kUnit, 2 * kUnit);
  EXPECT_EQ(statistics.counters(), (UpstreamCounters{{27 * kUnit, 50 * kUnit, 52 * kUnit}, {6, 10, 11}}));
  statistics.unmap(base + 4 * kUnit, 2 * kUnit);
  EXPECT_EQ(statistics.counters(), (UpstreamCounters{{25 * kUnit, 50 * kUnit, 52 * kUnit}, {5, 10, 11}}));
  EXPECT_EQ(statistics.unknown_frees(), 0u);
}

TEST(StatisticsUpstream, NestedScopesFoldIntoTheirParents) {
  StatisticsUpstream statistics(null());
  std::byte* const outer = statistics.allocate(10 * kUnit);
  EXPECT_EQ(statistics.push().bytes.value, static_cast<std::int64_t>(10 * kUnit));
  EXPECT_EQ(statistics.counters(), UpstreamCounters{});
  std::byte* const first = statistics.allocate(3 * kUnit);
  statistics.push();
  std::byte* const second = statistics.allocate(4 * kUnit);
  statistics.free(second, 4 * kUnit);
  EXPECT_EQ(statistics.pop(), (UpstreamCounters{{0, 4 * kUnit, 4 * kUnit}, {0, 1, 1}}));
  EXPECT_EQ(statistics.counters(), (UpstreamCounters{{3 * kUnit, 7 * kUnit, 7 * kUnit}, {1, 2, 2}}));
  statistics.free(first, 3 * kUnit);
  EXPECT_EQ(statistics.pop(), (UpstreamCounters{{0, 7 * kUnit, 7 * kUnit}, {0, 2, 2}}));
  EXPECT_EQ(statistics.counters(), (UpstreamCounters{{10 * kUnit, 17 * kUnit, 17 * kUnit}, {1, 3, 3}}));
  statistics.free(outer, 10 * kUnit);
  EXPECT_EQ(statistics.counters().bytes.value, 0);
  EXPECT_THROW(statistics.pop(), InvalidArgument);
}

TEST(StatisticsUpstream, AScopeMayGiveBackWhatWasThereBefore) {
  StatisticsUpstream statistics(null());
  std::byte* const outer = statistics.allocate(10 * kUnit);
  statistics.push();
  statistics.free(outer, 10 * kUnit);
  std::byte* const inner = statistics.allocate(2 * kUnit);
  EXPECT_EQ(statistics.pop(), (UpstreamCounters{{-8 * static_cast<std::int64_t>(kUnit), 0, 2 * kUnit}, {0, 0, 1}}));
  EXPECT_EQ(statistics.counters(), (UpstreamCounters{{2 * kUnit, 10 * kUnit, 12 * kUnit}, {1, 1, 2}}));
  statistics.free(inner, 2 * kUnit);
  EXPECT_EQ(statistics.counters().bytes.value, 0);
}

TEST(StatisticsUpstream, UnknownAndMisstatedFreesNeverUnderflow) {
  const auto loose = std::make_shared<LooseUpstream>();
  StatisticsUpstream statistics(loose);
  statistics.free(loose->allocate(kUnit), kUnit);  // acquired without it
  EXPECT_EQ(statistics.counters(), UpstreamCounters{});
  EXPECT_EQ(statistics.unknown_frees(), 1u);
  std::byte* const held = statistics.allocate(kUnit);
  statistics.free(held, 100 * kUnit);
  EXPECT_EQ(statistics.counters(), (UpstreamCounters{{0, kUnit, kUnit}, {0, 1, 1}}));
  statistics.free(held, kUnit);
  EXPECT_EQ(statistics.counters().bytes.value, 0);
  EXPECT_EQ(statistics.unknown_frees(), 2u);
}

TEST(StatisticsUpstream, ScopesInsideAndOutsideCountTheirOwn) {
  const auto inner = std::make_shared<StatisticsUpstream>(null());
  StatisticsUpstream outer(inner);
  std::byte* const past = inner->allocate(kUnit);
  std::byte* const through = outer.allocate(2 * kUnit);
  EXPECT_EQ(inner->counters().bytes.value, static_cast<std::int64_t>(3 * kUnit));
  EXPECT_EQ(outer.counters().bytes.value, static_cast<std::int64_t>(2 * kUnit));
  outer.free(past, kUnit);
  inner->free(through, 2 * kUnit);
  EXPECT_EQ(inner->counters().bytes.value, 0);
  EXPECT_EQ(outer.counters().bytes.value, static_cast<std::int64_t>(2 * kUnit));
}

TEST(StatisticsUpstream, CountsExactlyWhenTheUpstreamFails) {
  const auto fail = std::make_shared<FailUpstream>(null());
  StatisticsUpstream statistics(fail);
  std::byte* const base = statistics.reserve(8 * kUnit);
  statistics.map(base, kUnit);
  const UpstreamCounters before = statistics.counters();
  const auto refused = [&](auto&& body) {
    fail->fail_at(1, ErrorKind::kDevice);
    EXPECT_THROW(body(), DeviceError);
    EXPECT_EQ(statistics.counters(), before);
  };
  refused([&] { statistics.map(base + kUnit, kUnit); });
  refused([&] { statistics.move(base, base + kUnit, kUnit); });
  refused([&] { statistics.unmap(base, kUnit); });
  statistics.move(base, base + kUnit, kUnit);
  statistics.unmap(base + kUnit, kUnit);
  EXPECT_EQ(statistics.counters(), (UpstreamCounters{{0, kUnit, kUnit}, {0, 1, 1}}));
  EXPECT_EQ(statistics.unknown_frees(), 0u);
}

TEST(FailUpstream, FailsTheCallItWasAskedToOnce) {
  const auto inner = null();
  FailUpstream fail(inner);
  fail.fail_at(3);
  std::byte* const base = fail.reserve(8 * kUnit);
  fail.map(base, kUnit);
  EXPECT_EQ(message_of([&] { fail.map(base + kUnit, kUnit); }), "call 3, map, fails on request");
  EXPECT_EQ(inner->counts().maps, 1u);  // the call was not forwarded
  fail.map(base + kUnit, kUnit);
  EXPECT_EQ(fail.calls(), 4u);
  fail.fail_at(2);
  fail.fail_at(0);
  for (int i = 0; i < 3; ++i) fail.free(fail.allocate(kUnit), kUnit);
  EXPECT_EQ(fail.calls(), 10u);
}

TEST(FailUpstream, ThrowsTheKindItWasAskedFor) {
  FailUpstream fail(null());
  for (int kind = 0; kind <= static_cast<int>(ErrorKind::kIo); ++kind) {
    fail.fail_at(1, static_cast<ErrorKind>(kind));
    try {
      fail.allocate(kUnit);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), static_cast<ErrorKind>(kind));
    }
  }
}

TEST(FailUpstream, ASweepFindsEveryCall) {
  const auto program = [](Upstream& upstream) {
    ExpandableUpstream& pieces = *upstream.as_expandable();
    std::byte* const base = pieces.reserve(4 * kUnit);
    pieces.map(base, kUnit);
    pieces.move(base, base + kUnit, kUnit);
    pieces.unmap(base + kUnit, kUnit);
    pieces.release(base, 4 * kUnit);
    upstream.free(upstream.allocate(kUnit), kUnit);
  };
  FailUpstream counter(null());
  program(counter);
  EXPECT_EQ(counter.calls(), 7u);
  for (std::uint64_t k = 1; k <= 7; ++k) {
    FailUpstream fail(null());
    fail.fail_at(k);
    EXPECT_THROW(program(fail), OutOfMemory) << k;
  }
}

TEST(DelayUpstream, TakesAtLeastItsTime) {
  DelayUpstream delay(null(), std::chrono::milliseconds(2));
  const auto start = std::chrono::steady_clock::now();
  delay.free(delay.allocate(kUnit), kUnit);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(4));
}

}  // namespace
}  // namespace tessera::memory::testing
