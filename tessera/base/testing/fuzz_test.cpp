#include "tessera/base/testing/fuzz.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace tessera::fuzz {
namespace {

int run_with(std::vector<const char*> arguments, const std::function<std::string(std::uint64_t)>& one) {
  arguments.insert(arguments.begin(), "x_fuzz");
  return run(static_cast<int>(arguments.size()), const_cast<char**>(arguments.data()), "runs", one);
}

TEST(Fuzz, RunsTheSeedsItIsAskedFor) {
  std::vector<std::uint64_t> seeds;
  EXPECT_EQ(run_with({"--runs", "3", "--seed", "7"},
                     [&](std::uint64_t seed) {
                       seeds.push_back(seed);
                       return std::string();
                     }),
            0);
  EXPECT_EQ(seeds, (std::vector<std::uint64_t>{7, 8, 9}));
}

TEST(Fuzz, AFailureEndsTheRunAndNamesItsSeed) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_with({"--runs", "9"}, [](std::uint64_t seed) { return std::string(seed == 4 ? "wrong data" : ""); }),
            1);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "seed 4: wrong data; repeat with --runs 1 --seed 4\n");
}

TEST(Fuzz, AnExceptionIsAFailure) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_with({}, [](std::uint64_t) -> std::string { throw std::runtime_error("broke"); }), 1);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "seed 1: broke; repeat with --runs 1 --seed 1\n");
}

}  // namespace
}  // namespace tessera::fuzz
