#include "tessera/base/small_vector.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

namespace tessera {
namespace {

using Small = SmallVector<std::uint64_t, 4>;

Small counted(std::uint64_t count) {
  Small made;
  for (std::uint64_t i = 0; i < count; ++i) made.push_back(i);
  return made;
}

std::vector<std::uint64_t> expected(std::uint64_t count) {
  std::vector<std::uint64_t> made(count);
  std::iota(made.begin(), made.end(), 0U);
  return made;
}

bool is_in_place(const Small& small) {
  const auto* first = reinterpret_cast<const std::byte*>(small.data());
  const auto* own = reinterpret_cast<const std::byte*>(&small);
  return first >= own && first < own + sizeof small;
}

TEST(SmallVector, HoldsWhatWasAddedInOrder) {
  for (std::uint64_t count = 0; count <= 40; ++count) {
    const Small small = counted(count);
    EXPECT_EQ(small.size(), count);
    EXPECT_EQ(small.empty(), count == 0);
    EXPECT_EQ(small, expected(count));
  }
}

TEST(SmallVector, UsesTheHeapOnlyBeyondItsPlaces) {
  EXPECT_TRUE(is_in_place(counted(0)));
  EXPECT_TRUE(is_in_place(counted(4)));
  EXPECT_FALSE(is_in_place(counted(5)));
}

TEST(SmallVector, CopiesAndMovesWhateverBothSidesHeld) {
  for (std::uint64_t from = 0; from <= 12; ++from) {
    for (std::uint64_t to = 0; to <= 12; ++to) {
      Small source = counted(from);
      Small copied = counted(to);
      copied = source;
      EXPECT_EQ(copied, expected(from));
      EXPECT_EQ(source, expected(from));
      Small moved = counted(to);
      moved = std::move(source);
      EXPECT_EQ(moved, expected(from));
      EXPECT_TRUE(source.empty());  // NOLINT(bugprone-use-after-move): tests the moved-from state
      source.push_back(7);
      EXPECT_EQ(source, (Small{7}));
    }
    Small source = counted(from);
    const Small copied(source);
    const Small moved(std::move(source));
    EXPECT_EQ(copied, moved);
  }
}

TEST(SmallVector, AssigningItselfChangesNothing) {
  Small small = counted(9);
  const Small& same = small;
  small = same;
  EXPECT_EQ(small, expected(9));
}

TEST(SmallVector, AddsAnElementOfItsOwnWhileItGrows) {
  Small small = counted(4);
  small.push_back(small[3]);
  EXPECT_EQ(small, (Small{0, 1, 2, 3, 3}));
}

TEST(SmallVector, AppendsAndAssignsRanges) {
  Small small = counted(2);
  small.append(expected(3));
  EXPECT_EQ(small, (Small{0, 1, 0, 1, 2}));
  small.append({});
  EXPECT_EQ(small.size(), 5U);
  small.assign(expected(100));
  EXPECT_EQ(small, expected(100));
  const std::uint64_t* storage = small.data();
  small.clear();
  EXPECT_TRUE(small.empty());
  small.assign(expected(50));
  EXPECT_EQ(small.data(), storage);  // storage is kept
}

TEST(SmallVector, IsASpan) {
  const Small small = counted(6);
  const std::span<const std::uint64_t> span = small;
  EXPECT_EQ(span.data(), small.data());
  EXPECT_EQ(span.size(), 6U);
  EXPECT_EQ(std::accumulate(small.begin(), small.end(), std::uint64_t{0}), 15U);
}

TEST(SmallVector, ComparesByElements) {
  EXPECT_NE(counted(3), counted(4));
  EXPECT_NE(counted(2), (Small{0, 2}));
  EXPECT_EQ(counted(5), counted(5));
}

TEST(SmallVector, AtRefusesPlacesThatAreNotThere) {
  const Small small = counted(5);
  EXPECT_EQ(small.at(4), 4U);
  EXPECT_THROW((void)small.at(5), std::out_of_range);
}

}  // namespace
}  // namespace tessera
