// The out-of-memory report: each cause is recognized, and the sizes add up to the byte.
#include "tessera/memory/oom_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <nlohmann/json.hpp>

namespace tessera::memory {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kGiB = 1 << 30;
constexpr PoolId kDecode{4, 0};

// Builds a snapshot from left to right.
class Facts {
 public:
  Facts() {
    facts.device = "cuda:0";
    facts.stream = StreamId{2};
    facts.device_total_nbytes = 80 * kGiB;
    facts.process_nbytes = 0;
    facts.snapshot.pools = {{{}, "default", ""}, {kDecode, "decode", "graph 'decode'"}};
  }
  Facts& segment(PoolId pool = {}, bool is_expandable = true) {
    SegmentView view;
    view.address = next_ += kGiB;
    view.pool = pool;
    view.is_expandable = is_expandable;
    facts.snapshot.segments.push_back(view);
    return *this;
  }
  Facts& block(BlockState state, std::uint64_t nbytes, const char* label = "", const char* stack = "") {
    SegmentView& segment = facts.snapshot.segments.back();
    BlockView view;
    view.address = next_;
    view.nbytes = nbytes;
    view.requested_nbytes = state == BlockState::kCached ? 0 : nbytes - 100;
    view.state = state;
    view.label = label;
    view.stack = stack;
    segment.blocks.push_back(view);
    segment.nbytes += nbytes;
    next_ += nbytes;
    *facts.process_nbytes += nbytes;
    return *this;
  }
  Facts& live(std::uint64_t nbytes, const char* label = "", const char* stack = "") {
    return block(BlockState::kLive, nbytes, label, stack);
  }
  Facts& cached(std::uint64_t nbytes) { return block(BlockState::kCached, nbytes); }
  Facts& pending(std::uint64_t nbytes, std::vector<StreamId> streams) {
    block(BlockState::kPending, nbytes);
    facts.snapshot.segments.back().blocks.back().pending_streams = std::move(streams);
    return *this;
  }
  OomFacts want(std::uint64_t nbytes, std::uint64_t free) {
    facts.requested_nbytes = nbytes;
    facts.rounded_nbytes = (nbytes + 511) / 512 * 512;
    facts.growth_nbytes = (nbytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
    facts.device_free_nbytes = free;
    EXPECT_EQ(facts.snapshot.inconsistency(), "");
    return facts;
  }

  OomFacts facts;

 private:
  std::uint64_t next_ = 0;
};

void expect_cause(const OomFacts& facts, OomCause cause, const std::string& sentence) {
  const OomDiagnosis diagnosis = diagnose(facts);
  EXPECT_EQ(to_string(diagnosis.cause), to_string(cause)) << diagnosis.sentence;
  EXPECT_THAT(diagnosis.sentence, HasSubstr(sentence));
  EXPECT_TRUE(account_of(facts).closes());
  const std::string text = to_text(facts);
  EXPECT_THAT(text.substr(0, text.find('\n')), HasSubstr(sentence));
  EXPECT_EQ(json::parse(to_json(facts)).at("cause"), to_string(cause));
}

TEST(OomCause, TheRequestIsLargerThanTheDevice) {
  expect_cause(Facts().segment().cached(kGiB).want(81 * kGiB, 79 * kGiB), OomCause::kLargerThanDevice,
               "the request is larger than the device, which has 80 GiB");
}

TEST(OomCause, AStreamHasNotDoneYet) {
  Facts facts;
  facts.segment().live(78 * kGiB, "weights").pending(512 * kMiB, {StreamId{3}}).cached(100 * kMiB);
  expect_cause(facts.want(600 * kMiB, 0), OomCause::kPending, "waiting for stream 3 would help: 512 MiB are pending");
  facts.facts.is_in_capture = true;
  expect_cause(facts.facts, OomCause::kPending, "a capture cannot wait");
  // In fixed segments, pending blocks help only if they are adjacent.
  Facts apart;
  apart.segment({}, false).pending(300 * kMiB, {}).live(78 * kGiB, "weights").pending(300 * kMiB, {});
  EXPECT_EQ(diagnose(apart.want(600 * kMiB, 0)).cause, OomCause::kLabelGrew);
}

TEST(OomCause, CachedMemoryIsInPieces) {
  Facts facts;
  facts.segment({}, false).cached(300 * kMiB).live(78 * kGiB, "x").cached(300 * kMiB).live(512).cached(300 * kMiB);
  expect_cause(facts.want(500 * kMiB, 0), OomCause::kFragmentation,
               "fragmentation: 900 MiB are cached but the largest range is 300 MiB");
}

TEST(OomCause, APrivatePoolKeepsItToItself) {
  Facts facts;
  facts.segment().live(76 * kGiB, "weights").segment(kDecode).cached(2 * kGiB).live(512);
  expect_cause(facts.want(kGiB, 100 * kMiB), OomCause::kPrivatePool,
               "private pool 'decode' caches 2 GiB; set borrow_on_oom or trim it");
  facts.facts.borrowable_pools = {kDecode};
  EXPECT_EQ(diagnose(facts.facts).cause, OomCause::kLabelGrew) << "it would have been borrowed";
}

TEST(OomCause, TheLimitIsReached) {
  Facts facts;
  facts.segment().live(4000 * kMiB, "weights");
  facts.facts.limit_nbytes = 4 * kGiB;
  expect_cause(facts.want(200 * kMiB, 70 * kGiB), OomCause::kLimit, "the limit is set to 4 GiB");
  facts.facts.device_free_nbytes = 10 * kMiB;  // raising it would not help
  EXPECT_NE(diagnose(facts.facts).cause, OomCause::kLimit);
  facts.facts.limit_nbytes = 0;
  facts.facts.address_limit_nbytes = 5 * kGiB;
  facts.facts.address_nbytes = 4 * kGiB;
  expect_cause(facts.want(200 * kMiB, 70 * kGiB), OomCause::kLimit,
               "the address space of the process is limited to 5 GiB (ulimit -v), and 4 GiB are in use");
  EXPECT_NE(diagnose(facts.want(200 * kMiB, 0)).cause, OomCause::kLimit) << "the device is full as well";
}

TEST(OomCause, AnotherProcessHoldsTheDevice) {
  Facts facts;
  facts.segment().live(19 * kGiB, "weights");
  expect_cause(facts.want(2 * kGiB, kGiB), OomCause::kOtherProcess, "another process holds 60 GiB");
}

TEST(OomCause, ThisProcessHoldsItOutsideTheAllocator) {
  Facts facts;
  facts.segment().live(19 * kGiB, "weights");
  *facts.facts.process_nbytes += 58 * kGiB;
  expect_cause(facts.want(2 * kGiB, kGiB), OomCause::kOutsideAllocator, "this process holds 58 GiB outside");
  facts.facts.other_allocators_nbytes = 50 * kGiB;
  expect_cause(facts.facts, OomCause::kOutsideAllocator, "50 GiB of it in other allocators");
  facts.facts.process_nbytes.reset();
  facts.facts.other_allocators_nbytes = 0;
  expect_cause(facts.facts, OomCause::kOutsideAllocator,
               "60 GiB are held outside the allocator, by this process or by");
}

TEST(OomCause, OneLabelGrew) {
  Facts facts;
  facts.segment().live(64 * kGiB, "optimizer").live(16 * kGiB - kMiB, "weights");
  expect_cause(facts.want(2 * kGiB, kMiB), OomCause::kLabelGrew, "label 'optimizer' holds 80 % of live memory");
  Facts nameless;
  nameless.segment().live(80 * kGiB);
  expect_cause(nameless.want(kMiB, 0), OomCause::kLabelGrew, "allocations without a label hold 100 %");
}

Facts busy() {
  Facts facts;
  facts.segment().live(10 * kGiB, "weights", "libm.so+0x10 a.out+0x20").live(kGiB, "optimizer");
  facts.pending(kGiB, {StreamId{5}, StreamId{3}}).cached(2 * kGiB).pending(kMiB, {});
  for (const char* label : {"a", "b", "c", "d", "e"}) facts.live(kMiB, label);
  facts.segment(kDecode).live(3 * kGiB, "weights").cached(7 * kMiB);
  *facts.facts.process_nbytes += 300 * kMiB;
  facts.facts.other_allocators_nbytes = 100 * kMiB;
  facts.facts.label = "activations";
  facts.facts.limit_nbytes = 70 * kGiB;
  facts.facts.ladder = {"pending blocks: none is done", "trim: gave back 0 B"};
  facts.want(60 * kGiB, 50 * kGiB);
  return facts;
}

TEST(OomReport, TheFirstLineIsOneSentence) {
  const std::string text = to_text(busy().facts);
  EXPECT_EQ(
      text.substr(0, text.find('\n')),
      "cuda:0: cannot allocate 60 GiB (label 'activations', stream 2, pool 'default'): label 'weights' holds 93 % of "
      "live memory, 12.99 GiB; only 50 GiB more is available");
}

TEST(OomReport, TextShowsEveryPart) {
  const std::string text = to_text(busy().facts);
  for (const char* part : {"60 GiB  requested (64424509440 bytes)",
                           "60 GiB  requested from the upstream",
                           "80 GiB  device\n",
                           "50 GiB  free\n",
                           "  other processes\n",
                           "300 MiB  this process, outside this allocator\n",
                           "100 MiB  of it in other allocators\n",
                           "  this allocator\n",
                           "live in 8 blocks",
                           "12.99 GiB  'weights'\n",
                           "2 others\n",
                           "rounding of these\n",
                           "1 GiB  waiting for streams 3 and 5\n",
                           "1 MiB  waiting for stream 0\n",
                           "2 GiB  pool 'default', stream 0\n",
                           "7 MiB  pool 'decode', stream 0\n",
                           "pool 'decode', held by graph 'decode': live 2.99 GiB, rounding 100 B",
                           "2 GiB  largest contiguous cached range: pool 'default'",
                           "70 GiB  limit set on this allocator",
                           "in 1 block: libm.so+0x10 a.out+0x20",
                           "tried:\n  pending blocks: none is done\n"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

std::uint64_t sum(const json& rows) {
  std::uint64_t total = 0;
  for (const json& row : rows) total += row.at("nbytes").get<std::uint64_t>();
  return total;
}

void expect_sums(const json& report) {
  const json& account = report.at("account");
  const auto get = [&](const char* name) { return account.at(name).get<std::uint64_t>(); };
  EXPECT_TRUE(account.at("closes"));
  for (const char* part : {"free_nbytes", "other_processes_nbytes", "own_outside_nbytes", "unattributed_nbytes"})
    EXPECT_LE(get(part), get("total_nbytes")) << part;
  EXPECT_EQ(get("total_nbytes"), get("free_nbytes") + get("other_processes_nbytes") + get("own_outside_nbytes") +
                                     get("unattributed_nbytes") + get("reserved_nbytes"));
  EXPECT_EQ(get("reserved_nbytes"), sum(report.at("live_by_label")) + get("rounding_nbytes") +
                                        sum(report.at("pending_by_stream")) +
                                        sum(report.at("cached_by_pool_and_stream")));
  std::uint64_t pools = 0;
  for (const json& pool : report.at("pools")) pools += pool.at("reserved_nbytes").get<std::uint64_t>();
  EXPECT_EQ(get("reserved_nbytes"), pools);
}

TEST(OomReport, JsonAddsUpToTheByte) {
  const json report = json::parse(to_json(busy().facts));
  expect_sums(report);
  EXPECT_EQ(report.at("requested_nbytes"), 60 * kGiB);
  EXPECT_EQ(report.at("growth_nbytes"), 60 * kGiB);
  EXPECT_EQ(report.at("largest_cached_range").at("nbytes"), 2 * kGiB);
  EXPECT_EQ(report.at("pending_by_stream").at(0).at("streams"), json::array({3, 5}));
  EXPECT_EQ(report.at("ladder").size(), 2u);
}

TEST(OomReport, AddsUpForAnyState) {
  std::mt19937_64 random(11);
  const char* labels[] = {"", "a", "b", "c"};
  for (int round = 0; round < 200; ++round) {
    Facts facts;
    for (std::uint64_t s = 1 + random() % 4; s > 0; --s) {
      facts.segment(random() % 2 == 0 ? PoolId{} : kDecode, random() % 2 == 0);
      for (std::uint64_t b = 1 + random() % 10; b > 0; --b) {
        const std::uint64_t nbytes = 512 * (1 + random() % 4096);
        facts.block(static_cast<BlockState>(random() % 3), nbytes, labels[random() % 4]);
      }
    }
    if (random() % 4 == 0) facts.facts.process_nbytes = random() % (200 * kGiB);  // the driver may report anything
    if (random() % 4 == 0) facts.facts.process_nbytes.reset();
    if (random() % 4 == 0) facts.facts.other_allocators_nbytes = random() % kGiB;
    if (random() % 4 == 0) facts.facts.limit_nbytes = random() % kGiB;
    facts.want(1 + random() % kGiB, random() % kGiB);
    expect_sums(json::parse(to_json(facts.facts)));
    EXPECT_FALSE(to_text(facts.facts).empty());
  }
}

TEST(OomReport, NumbersThatDisagreeAreSaidToDo) {
  Facts facts;
  facts.segment().live(70 * kGiB);
  const OomAccount account = account_of(facts.want(kGiB, 20 * kGiB));
  EXPECT_EQ(account.excess_nbytes, 10 * kGiB);
  EXPECT_TRUE(account.closes());
  EXPECT_THAT(to_text(facts.facts), HasSubstr("10 GiB  excess"));
}

TEST(OomReport, ADeviceOfUnknownSizeStillHasAReport) {
  Facts facts;
  facts.segment().live(kGiB, "weights");
  facts.facts.device_total_nbytes = 0;
  const OomFacts what = facts.want(kGiB, 0);
  EXPECT_EQ(diagnose(what).cause, OomCause::kLabelGrew);
  EXPECT_THAT(to_text(what), HasSubstr("the memory of the device is unknown"));
  EXPECT_TRUE(account_of(what).closes());
}

TEST(OutOfMemoryError, CarriesTheReport) {
  OomFacts facts = busy().facts;
  facts.label = "two\nlines";
  try {
    throw OutOfMemoryError({__FILE__, __LINE__}, facts);
  } catch (const OutOfMemory& error) {
    const auto* whole = dynamic_cast<const OutOfMemoryError*>(&error);
    ASSERT_NE(whole, nullptr);
    EXPECT_EQ(whole->report(), to_text(facts));
    EXPECT_EQ(whole->json(), to_json(facts));
    EXPECT_EQ(whole->cause(), OomCause::kLabelGrew);
    EXPECT_EQ(error.message(), whole->report().substr(0, whole->report().find('\n')));
    EXPECT_THAT(error.what(), HasSubstr(error.message()));
    EXPECT_THAT(error.message(), HasSubstr("label 'two lines'"));
  }
}

}  // namespace
}  // namespace tessera::memory
