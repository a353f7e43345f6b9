// Chunks of a symmetric pool: none overlaps another or spans two segments, and equal requests give equal offsets.
#include "tessera/comm/detail/symmetric/offset_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::comm::detail {
namespace {

constexpr std::uint64_t kSegment = 64 << 10;

struct Piece {
  std::uint64_t offset;
  std::uint64_t nbytes;
};

std::uint64_t rounded(std::uint64_t nbytes, std::uint64_t unit) { return (nbytes + unit - 1) / unit * unit; }

// Makes random requests and checks each chunk against all others and against the segments. Returns all offsets.
std::vector<std::uint64_t> play(unsigned seed) {
  std::mt19937 random(seed);
  OffsetPlan plan;
  std::vector<Piece> pieces;
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> ends;  // ends of segments
  for (int i = 0; i < 400; ++i) {
    const auto dice = random() % 10;
    if (dice < 6) {
      const std::uint64_t nbytes = 1 + random() % (dice == 0 ? 100'000 : 3000);
      const Piece piece{plan.allocate(nbytes), nbytes};
      offsets.push_back(piece.offset);
      EXPECT_EQ(piece.offset % OffsetPlan::kUnit, 0U);
      for (const Piece& other : pieces) {
        EXPECT_TRUE(piece.offset >= other.offset + other.nbytes || other.offset >= piece.offset + piece.nbytes);
      }
      for (const std::uint64_t end : ends) {
        EXPECT_TRUE(piece.offset >= end || piece.offset + piece.nbytes <= end) << "in two segments";
      }
      pieces.push_back(piece);
    } else if (dice < 9 && !pieces.empty()) {
      const auto which = pieces.begin() + static_cast<std::ptrdiff_t>(random() % pieces.size());
      plan.free(which->offset, which->nbytes);
      pieces.erase(which);
    } else if (plan.to_come() > 0) {
      plan.grow(rounded(plan.to_come(), kSegment));
      ends.push_back(plan.mapped());
      for (const Piece& piece : pieces) EXPECT_LE(piece.offset + piece.nbytes, plan.mapped());
    }
  }
  return offsets;
}

TEST(OffsetPlan, KeepsPiecesApartAndWithinASegment) {
  for (unsigned seed = 1; seed <= 30; ++seed) (void)play(seed);
}

TEST(OffsetPlan, GivesTheSameForTheSameRequests) {
  for (unsigned seed = 1; seed <= 5; ++seed) EXPECT_EQ(play(seed), play(seed));
}

TEST(OffsetPlan, TakesTheLowestPieceThatIsLongEnough) {
  OffsetPlan plan;
  plan.grow(kSegment);
  const std::uint64_t a = plan.allocate(512);
  const std::uint64_t b = plan.allocate(2048);
  const std::uint64_t c = plan.allocate(1);
  EXPECT_EQ(a, 0U);
  EXPECT_EQ(b, 512U);
  EXPECT_EQ(c, 2560U);
  plan.free(a, 512);
  plan.free(b, 2048);
  EXPECT_EQ(plan.allocate(2560), 0U) << "neighbours were not joined";
}

TEST(OffsetPlan, WhatIsGivenBackAtTheEndIsNotToCome) {
  OffsetPlan plan;
  plan.grow(kSegment);
  const std::uint64_t inside = plan.allocate(kSegment);
  const std::uint64_t first = plan.allocate(10'000);
  const std::uint64_t second = plan.allocate(512);
  EXPECT_EQ(first, kSegment);
  EXPECT_EQ(plan.to_come(), 10'240U + 512);
  plan.free(first, 10'000);
  EXPECT_EQ(plan.to_come(), 10'240U + 512);
  plan.free(second, 512);
  EXPECT_EQ(plan.to_come(), 0U);
  plan.free(inside, kSegment);
  EXPECT_EQ(plan.to_come(), 0U);
  EXPECT_EQ(plan.allocate(kSegment), 0U);
}

TEST(OffsetPlan, RefusesNothingAndTooMuch) {
  OffsetPlan plan;
  expect_error<InvalidArgument>([&] { (void)plan.allocate(0); }, {"nbytes must be in [1, ", "], got 0"});
  expect_error<InvalidArgument>([&] { (void)plan.allocate(OffsetPlan::kMax + 1); }, {"bytes"});
  EXPECT_EQ(plan.to_come(), 0U);
}

}  // namespace
}  // namespace tessera::comm::detail
