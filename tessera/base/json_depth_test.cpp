#include "tessera/base/json_depth.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera::detail {
namespace {

TEST(JsonDepth, CountsListsAndObjectsThatLieInEachOther) {
  EXPECT_EQ(json_depth(""), 0U);
  EXPECT_EQ(json_depth("7"), 0U);
  EXPECT_EQ(json_depth("[]"), 1U);
  EXPECT_EQ(json_depth(R"({"a": [1, {"b": 2}], "c": []})"), 3U);
  EXPECT_EQ(json_depth("[[], [], []]"), 2U);
  EXPECT_EQ(json_depth(std::string(100'000, '[')), 100'000U);
}

TEST(JsonDepth, WhatStandsInStringsIsText) {
  EXPECT_EQ(json_depth(R"(["[[[", "{{{"])"), 1U);
  EXPECT_EQ(json_depth(R"(["\"[[["])"), 1U) << "a quote that ends nothing";
  EXPECT_EQ(json_depth(R"(["\\", [[]]])"), 3U) << "a backslash, and the end of the string";
  EXPECT_EQ(json_depth(R"({"[": "]]]]", "a": [[1]]})"), 3U);
  EXPECT_EQ(json_depth("[\"\\"), 1U) << "cut off";
}

// A parser stops at the first error; the depth before it is counted, and the depth never falls below 0.
TEST(JsonDepth, TextThatIsNoJsonDoesNotHideDepth) {
  EXPECT_EQ(json_depth("]]]][[[["), 4U);
  EXPECT_EQ(json_depth("[[[}}}"), 3U);
}

}  // namespace
}  // namespace tessera::detail
