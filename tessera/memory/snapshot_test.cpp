// Sums of a snapshot, and detection of inconsistent ones.
#include "tessera/memory/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <set>
#include <nlohmann/json.hpp>

#include "tessera/memory/statistics.h"

namespace tessera::memory {
namespace {

Snapshot two_segments() {
  Snapshot snapshot;
  snapshot.device = "host:0";
  snapshot.segments = {{.address = 0x1000,
                        .nbytes = 4096,
                        .pool = {},
                        .stream = StreamId{0},
                        .blocks = {{.address = 0x1000,
                                    .nbytes = 1024,
                                    .requested_nbytes = 1000,
                                    .state = BlockState::kLive,
                                    .stream = StreamId{0}},
                                   {.address = 0x1400,
                                    .nbytes = 1024,
                                    .requested_nbytes = 1024,
                                    .state = BlockState::kPending,
                                    .stream = StreamId{0}},
                                   {.address = 0x1800,
                                    .nbytes = 2048,
                                    .requested_nbytes = 0,
                                    .state = BlockState::kCached,
                                    .stream = StreamId{0}}}},
                       {.address = 0x2000,
                        .nbytes = 512,
                        .pool = {0, 3},
                        .stream = StreamId{1},
                        .blocks = {{.address = 0x2000,
                                    .nbytes = 512,
                                    .requested_nbytes = 1,
                                    .state = BlockState::kLive,
                                    .stream = StreamId{1}}}}};
  return snapshot;
}

TEST(Snapshot, TotalsAddUpByWalkingBlocks) {
  const Totals sums = two_segments().totals();
  EXPECT_EQ(sums.reserved_nbytes, 4608u);
  EXPECT_EQ(sums.live_nbytes, 1001u);
  EXPECT_EQ(sums.rounding_nbytes, 24u + 511u);
  EXPECT_EQ(sums.pending_nbytes, 1024u);
  EXPECT_EQ(sums.cached_nbytes, 2048u);
  EXPECT_EQ(sums.live_blocks, 2u);
  EXPECT_EQ(sums.pending_blocks, 1u);
  EXPECT_EQ(sums.cached_blocks, 1u);
  EXPECT_TRUE(sums.closes());
}

TEST(Snapshot, TotalsOfOnePoolLeaveOthersOut) {
  const Snapshot snapshot = two_segments();
  EXPECT_EQ(snapshot.totals({0, 3}).reserved_nbytes, 512u);
  EXPECT_EQ(snapshot.totals({}).reserved_nbytes, 4096u);
  EXPECT_EQ(snapshot.totals({7, 0}), Totals{});
}

TEST(Snapshot, FindsNothingWrongWithBlocksThatTile) {
  EXPECT_EQ(two_segments().inconsistency(), "");
  EXPECT_EQ(Snapshot{}.inconsistency(), "");
}

TEST(Snapshot, NamesWhatIsWrong) {
  const auto broken = [](auto change) {
    Snapshot snapshot = two_segments();
    change(snapshot);
    return snapshot.inconsistency();
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(broken([](Snapshot& s) { std::swap(s.segments[0], s.segments[1]); }), HasSubstr("comes after"));
  EXPECT_THAT(broken([](Snapshot& s) { s.segments[1].address = s.segments[1].blocks[0].address = 0x1c00; }),
              HasSubstr("segment 0x1c00 overlaps the 4096 bytes at 0x1000"));
  EXPECT_THAT(broken([](Snapshot& s) { s.segments[0].blocks[1].address += 512; }), HasSubstr("should start at 0x1400"));
  EXPECT_THAT(broken([](Snapshot& s) { s.segments[0].blocks.pop_back(); }), HasSubstr("its blocks end at 0x1800"));
  EXPECT_THAT(broken([](Snapshot& s) { s.segments[0].blocks[2].nbytes += 512; }), HasSubstr("exceeds its segment"));
  EXPECT_THAT(broken([](Snapshot& s) { s.segments[0].blocks[0].requested_nbytes = 2000; }), HasSubstr("smaller than"));
  EXPECT_THAT(broken([](Snapshot& s) { s.segments[0].blocks[2].requested_nbytes = 1; }), HasSubstr("is cached, but"));
  EXPECT_THAT(broken([](Snapshot& s) { s.segments[1].nbytes = ~std::uint64_t{0}; }),
              HasSubstr("exceeds the address space"));
  EXPECT_THAT(broken([](Snapshot& s) { s.segments[1].nbytes = 0; }), HasSubstr("is empty"));
}

TEST(Statistics, TextIsAlignedAndHuman) {
  Statistics statistics;
  statistics.now.reserved_nbytes = 3 << 20;
  statistics.peak_live_nbytes = 1536;
  statistics.retries_trim = 7;
  const std::string text = statistics.to_text();
  EXPECT_THAT(text, ::testing::HasSubstr("reserved             3 MiB\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("peak live            1.5 KiB\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("retries trim         7\n"));
}

TEST(Statistics, JsonHasEveryNumberOnce) {
  static_assert(std::is_trivially_copyable_v<Statistics> && sizeof(Statistics) % sizeof(std::uint64_t) == 0);
  std::array<std::uint64_t, sizeof(Statistics) / sizeof(std::uint64_t)> values{};
  std::iota(values.begin(), values.end(), 1);
  Statistics statistics;
  std::memcpy(static_cast<void*>(&statistics), values.data(), sizeof statistics);
  const auto json = nlohmann::json::parse(statistics.to_json());
  EXPECT_EQ(json.size(), values.size());
  std::set<std::uint64_t> seen;
  for (const auto& [name, value] : json.items()) seen.insert(value.get<std::uint64_t>());
  EXPECT_EQ(seen.size(), json.size());
  EXPECT_EQ(json.at("out_of_memory"), values.back());
}

}  // namespace
}  // namespace tessera::memory
