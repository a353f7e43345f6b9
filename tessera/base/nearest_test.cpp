// Edit distance and the nearest name.
#include "tessera/base/nearest.h"

#include <gtest/gtest.h>

#include <array>

namespace tessera {
namespace {

TEST(Nearest, DistanceCountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("record", "recrod"), 1u);
  EXPECT_EQ(edit_distance("RECORD", "record"), 0u);
  EXPECT_EQ(edit_distance("flaw", "lawn"), edit_distance("lawn", "flaw"));
}

TEST(Nearest, PicksTheClosestAndNothingWhenAllAreFar) {
  const std::array<std::string_view, 3> names = {"info", "explain", "launch"};
  EXPECT_EQ(nearest("inof", names), "info");
  EXPECT_EQ(nearest("explian", names), "explain");
  EXPECT_EQ(nearest("INFO", names), "info");
  EXPECT_EQ(nearest("snapshot", names), std::nullopt);
  EXPECT_EQ(nearest("", names), std::nullopt);
  EXPECT_EQ(nearest("zz", std::array<std::string_view, 1>{"ab"}), std::nullopt);
  EXPECT_EQ(nearest("x", std::array<std::string_view, 0>{}), std::nullopt);
}

TEST(Nearest, FirstOfEqualsWins) { EXPECT_EQ(nearest("f33", std::array<std::string_view, 2>{"f32", "f31"}), "f32"); }

TEST(Nearest, DidYouMeanIsEmptyWhenNothingIsNear) {
  const std::array<std::string_view, 1> names = {"info"};
  EXPECT_EQ(did_you_mean("inf", names), " (did you mean 'info'?)");
  EXPECT_EQ(did_you_mean("unrelated", names), "");
}

}  // namespace
}  // namespace tessera
