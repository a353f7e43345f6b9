// Conformance tests of sharded programs: a training step under any plan equals the step of one device. Each way of
// running ranks instantiates them in a separate file:
//
//   INSTANTIATE_TEST_SUITE_P(Mine, ShardSuite, testing::Values(Implementation{"free", run}), implementation_name);
//
// The mutants of this layer (testing/mutants.toml) run against this suite. They model faults of real training runs: a
// missing 1/dp, a norm weight that is not reduced, a missing reduction over tp. The suite detects each of them.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>

namespace tessera::shard::suite {

/// A way to run ranks.
struct ShardImplementation {
  std::string name;  ///< Suffix of the test case names.
  /// Runs `body` on `ranks` ranks, which are threads of this process. Returns when all have ended. An error fails the
  /// case.
  std::function<void(int ranks, const std::function<void()>& body)> run;
};
inline void PrintTo(const ShardImplementation& implementation, std::ostream* out) { *out << implementation.name; }
/// Names the instances for INSTANTIATE_TEST_SUITE_P.
inline std::string implementation_name(const testing::TestParamInfo<ShardImplementation>& info) {
  return info.param.name;
}

/// Conformance suite over an Implementation.
class ShardSuite : public testing::TestWithParam<ShardImplementation> {};

}  // namespace tessera::shard::suite
