// Conformance tests of the trainer: the results are equal on every mesh. Each way of running ranks instantiates them in
// a separate file. The mutants of this layer (testing/mutants.toml) run against this suite. They model faults of real
// training runs: a missing 1/dp, a norm weight that is not reduced, a missing reduction over tp, a step along a partial
// gradient. Others model faults of replayed steps: constant random numbers, an applied bad step, a constant learning
// rate or batch. The suite detects each of them.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>

#include "tessera/train/config.h"
#include "tessera/train/testing/runs.h"

namespace tessera::train::suite {

/// A way to run ranks.
struct TrainImplementation {
  std::string name;  ///< Suffix of the test case names.
  /// Runs on the ranks of its mesh and returns the curve of the first rank.
  std::function<testing::Curve(const Config& config)> run = {};
};
inline void PrintTo(const TrainImplementation& implementation, std::ostream* out) { *out << implementation.name; }
/// For INSTANTIATE_TEST_SUITE_P.
inline std::string implementation_name(const ::testing::TestParamInfo<TrainImplementation>& info) {
  return info.param.name;
}

/// Conformance suite over an Implementation.
class TrainSuite : public ::testing::TestWithParam<TrainImplementation> {};

}  // namespace tessera::train::suite
