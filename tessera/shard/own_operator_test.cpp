// Operators defined outside the tree meet the same rules as those inside: the operator of the example passes the
// validator, forward and backward. The validator emulates all ranks without dispatch. The example is also run as a
// separate program.
#include <gtest/gtest.h>

#define main run_example
#include <examples/13_own_kernels.cpp>  // NOLINT(bugprone-suspicious-include)
#undef main

#include "tessera/ops/testing/validator.h"

namespace tessera::shard {
namespace {

using ops::testing::normal;
using ops::testing::OpCaseInfo;
using ops::testing::OpSample;
using ops::testing::Random;
using ops::testing::Validation;

OpCaseInfo distances_case() {
  return {.op = "distances", .samples = [](Random& random) -> std::vector<OpSample> {
            return {{.inputs = {normal(random, {4, 5}), normal(random, {3, 5})}}};
          }};
}

TEST(OwnOperator, PassesTheValidator) {
  const Validation found = ops::testing::validate(distances_case());
  EXPECT_EQ(found.wrong, std::vector<std::string>());
  EXPECT_GT(found.tried, 50) << found.text();
  EXPECT_GT(found.even, 0) << found.text();
  EXPECT_GT(found.uneven, 0) << found.text();
  EXPECT_GT(found.empty, 0) << found.text();
}

TEST(OwnOperator, HasAGradientThatPassesTheValidator) {
  const Validation found = ops::testing::validate_backward(distances_case());
  EXPECT_EQ(found.wrong, std::vector<std::string>());
  EXPECT_EQ(found.stuck, std::vector<std::string>());
  EXPECT_GT(found.tried, 50) << found.text();
}

TEST(OwnOperator, HasARuleThatLeavesNothingOut) {
  EXPECT_EQ(ops::testing::find_missing(distances_case()), std::vector<std::string>());
}

}  // namespace
}  // namespace tessera::shard
