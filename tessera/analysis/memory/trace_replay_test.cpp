// Replays of small logs with results computed by hand, and of random ones whose sums must hold.
#include "tessera/analysis/memory/trace_replay.h"

#include <gtest/gtest.h>

#include <random>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"

namespace tessera::analysis {
namespace {

using memory::Policy;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::size_t kPlenty = std::size_t{1} << 40;

// Builds a trace op by op.
struct Builder {
  Trace trace;
  std::uint64_t alloc(std::uint64_t nbytes, std::uint32_t stream = 0) {
    trace.streams = std::max(trace.streams, stream + 1);
    trace.ops.push_back({true, trace.keys, nbytes, stream});
    return trace.keys++;
  }
  void free(std::uint64_t key) {
    for (const TraceOp& op : trace.ops) {
      if (op.is_alloc && op.key == key) {
        trace.ops.push_back({false, key, op.nbytes, op.stream});
        return;
      }
    }
  }
};

TEST(Replay, AnEmptyLogTakesNothing) {
  const ReplayResult result = replay({}, {}, kPlenty);
  EXPECT_EQ(result.ops, 0u);
  EXPECT_EQ(result.peak_reserved_nbytes, 0u);
  EXPECT_EQ(result.ratio(), 0);
  EXPECT_EQ(result.fragmentation(), 0);
}

TEST(Replay, PeaksAreThoseOfTheLog) {
  Builder log;
  const auto a = log.alloc(4 * kMiB);
  const auto b = log.alloc(8 * kMiB);
  log.free(a);
  const auto c = log.alloc(2 * kMiB);
  log.free(b);
  log.free(c);
  const ReplayResult result = replay(log.trace, {}, kPlenty);
  EXPECT_EQ(result.ops, 6u);
  EXPECT_EQ(result.failures, 0u);
  EXPECT_EQ(result.peak_live_nbytes, 12 * kMiB);
  EXPECT_EQ(result.peak_reserved_nbytes, 12 * kMiB);  // c fits at the position of a
  EXPECT_DOUBLE_EQ(result.ratio(), 1);
  EXPECT_GE(result.maps, 1u);
}

TEST(Replay, FreeBytesAtThePeakAreMeasured) {
  Builder log;
  const auto hole = log.alloc(4 * kMiB);
  log.alloc(2 * kMiB);
  log.free(hole);
  log.alloc(64 * kMiB);  // fits no hole
  const ReplayResult result = replay(log.trace, {}, kPlenty);
  EXPECT_EQ(result.peak_live_nbytes, 66 * kMiB);
  EXPECT_EQ(result.free_nbytes_at_peak, result.peak_reserved_nbytes - 66 * kMiB);
  EXPECT_LE(result.largest_free_nbytes_at_peak, result.free_nbytes_at_peak);
}

TEST(Replay, WhatDoesNotFitIsCountedAndItsFreeLeftOut) {
  Builder log;
  const auto a = log.alloc(6 * kMiB);
  const auto b = log.alloc(6 * kMiB);
  log.free(b);
  log.free(a);
  const auto c = log.alloc(8 * kMiB);
  log.free(c);
  const ReplayResult result = replay(log.trace, {}, 8 * kMiB);
  EXPECT_EQ(result.failures, 1u);
  EXPECT_EQ(result.peak_live_nbytes, 8 * kMiB);
  EXPECT_LE(result.peak_reserved_nbytes, 8 * kMiB);
  EXPECT_EQ(replay(log.trace, {}, 12 * kMiB).failures, 0u);
}

TEST(Replay, AllocationsOfNothingAreFine) {
  Builder log;
  const auto a = log.alloc(0);
  log.free(a);
  EXPECT_EQ(replay(log.trace, {}, kPlenty).peak_live_nbytes, 0u);
}

TEST(Replay, SmallGranulesReserveLess) {
  Builder log;
  log.alloc(512);
  const auto with = [&](const char* policy) { return replay(log.trace, Policy::parse(policy), kPlenty); };
  EXPECT_EQ(with("").peak_reserved_nbytes, 2 * kMiB);
  EXPECT_EQ(with("granule_nbytes=64KiB").peak_reserved_nbytes, 65536u);
}

TEST(Replay, RandomLogsKeepTheirSums) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    std::mt19937_64 random(seed);
    Trace trace{.streams = 4};
    std::vector<TraceOp> live;
    std::uint64_t held = 0;
    std::uint64_t peak = 0;
    for (int i = 0; i < 3000; ++i) {
      if (live.empty() || random() % 100 < 52) {
        const TraceOp op{true, trace.keys++, 1 + (random() >> (41 + random() % 14)),
                         static_cast<std::uint32_t>(random() % 4)};
        live.push_back(op);
        trace.ops.push_back(op);
        peak = std::max(peak, held += op.nbytes);
      } else {
        std::swap(live[random() % live.size()], live.back());
        TraceOp op = live.back();
        live.pop_back();
        op.is_alloc = false;
        trace.ops.push_back(op);
        held -= op.nbytes;
      }
    }
    for (const char* policy : {"", "cross_stream=grow", "expandable=false", "roundup_divisions=4"}) {
      const ReplayResult result = replay(trace, Policy::parse(policy), kPlenty);
      ReplayResult again = replay(trace, Policy::parse(policy), kPlenty);
      again.ns_per_op = result.ns_per_op;
      EXPECT_EQ(again.to_json(), result.to_json()) << policy;
      EXPECT_EQ(result.ops, trace.ops.size());
      EXPECT_EQ(result.failures, 0u) << policy;
      EXPECT_EQ(result.peak_live_nbytes, peak) << policy;
      EXPECT_GE(result.peak_reserved_nbytes, peak) << policy;
      EXPECT_LE(result.largest_free_nbytes_at_peak, result.free_nbytes_at_peak) << policy;
    }
  }
}

TEST(Replay, LogsThatMakeNoSenseAreRefused) {
  const auto refused = [](const Trace& trace) { EXPECT_THROW(replay(trace, {}, kPlenty), InvalidArgument); };
  refused({.ops = {{true, 1, 8, 0}}, .keys = 1, .streams = 1});
  refused({.ops = {{true, 0, 8, 1}}, .keys = 1, .streams = 1});
  refused({.ops = {{false, 0, 8, 0}}, .keys = 1, .streams = 1});
  refused({.ops = {{true, 0, 8, 0}, {true, 0, 8, 0}}, .keys = 1, .streams = 1});
  refused({.ops = {{true, 0, 8, 0}, {false, 0, 8, 0}, {false, 0, 8, 0}}, .keys = 1, .streams = 1});
  refused({.streams = 5000});
  Policy policy;
  policy.granule_nbytes = 3;
  EXPECT_THROW(replay({}, policy, kPlenty), InvalidArgument);
}

TEST(Replay, ResultsAreJsonToo) {
  Builder log;
  log.alloc(4 * kMiB);
  const auto json = nlohmann::json::parse(replay(log.trace, {}, kPlenty).to_json());
  EXPECT_EQ(json.at("ops"), 1);
  EXPECT_EQ(json.at("peak_live_nbytes"), 4 * kMiB);
  EXPECT_EQ(json.at("ratio"), 1.0);
}

}  // namespace
}  // namespace tessera::analysis
