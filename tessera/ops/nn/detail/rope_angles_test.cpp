#include "tessera/ops/nn/detail/rope_angles.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera::ops::detail {
namespace {

TEST(RopeAngles, AreThoseOfEachPositionAndPair) {
  const AngleTable<double> table = angles_of_sequence<double>({.base = 100, .offset = 3}, 6, 4);
  ASSERT_EQ(table->size(), 4U * 6);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t pair = 0; pair < 3; ++pair) {
      const double angle = static_cast<double>(3 + i) * std::pow(100, -2.0 * static_cast<double>(pair) / 6);
      EXPECT_NEAR((*table)[6 * i + pair], std::cos(angle), 1e-14);
      EXPECT_NEAR((*table)[6 * i + 3 + pair], std::sin(angle), 1e-14);
    }
  }
}

TEST(RopeAngles, AreMadeOnceForTheSameAttributes) {
  const RopeAttributes plain;
  const AngleTable<float> table = angles_of_sequence<float>(plain, 8, 16);
  EXPECT_EQ(angles_of_sequence<float>(plain, 8, 16), table);
  EXPECT_EQ(angles_of_sequence<float>({.dim = 1, .is_interleaved = true, .is_inverse = true}, 8, 16), table)
      << "the use of angles does not change them";
}

TEST(RopeAngles, DependOnEveryAttributeThatChangesThem) {
  RopeAttributes sharded;
  sharded.index = {{.offset = 16, .block = 16, .levels = {}}};
  const RopeAttributes all[] = {{},
                                {.base = 500},
                                {.factor = 2},
                                {.factor = 2, .original_context = 64},
                                {.factor = 2, .original_context = 64, .low_turns = 2},
                                {.factor = 2, .original_context = 64, .high_turns = 3},
                                {.offset = 1},
                                sharded};
  for (const RopeAttributes& how : all) (void)angles_of_sequence<double>(how, 8, 16);
  for (const RopeAttributes& how : all) {
    const AngleTable<double> fresh = angles_of_positions<double>(
        how, 8, 16, [&](std::int64_t i) { return how.offset + (how.index.empty() ? i : how.index[0].global(i)); });
    EXPECT_EQ(*angles_of_sequence<double>(how, 8, 16), *fresh);
    EXPECT_EQ(angles_of_sequence<double>(how, 4, 16)->size(), 4U * 16);
    EXPECT_EQ(angles_of_sequence<double>(how, 8, 5)->size(), 8U * 5);
  }
}

// A table in use survives its eviction from the cache.
TEST(RopeAngles, KeepsTheLastUsedAlone) {
  const AngleTable<float> first = angles_of_sequence<float>({.base = 3}, 8, 16);
  const AngleTable<float> used = angles_of_sequence<float>({.base = 5}, 8, 16);
  for (int i = 0; i < 7; ++i) {
    (void)angles_of_sequence<float>({.base = 100.0 + i}, 8, 16);
    EXPECT_EQ(angles_of_sequence<float>({.base = 5}, 8, 16), used);
  }
  EXPECT_EQ(first.use_count(), 1);
  const AngleTable<float> again = angles_of_sequence<float>({.base = 3}, 8, 16);
  EXPECT_NE(again, first);
  EXPECT_EQ(*again, *first);
}

TEST(RopeAngles, OfLongTablesAreNotKept) {
  const AngleTable<float> table = angles_of_sequence<float>({}, 2, (16 << 20) / 8 + 1);
  EXPECT_EQ(table.use_count(), 1);
}

}  // namespace
}  // namespace tessera::ops::detail
