// What sharded programs promise, as tests that are written once: a training step under any plan is the step of one
// device. Each way of running ranks instantiates them in a file of its own:
//
//   INSTANTIATE_TEST_SUITE_P(Mine, ShardSuite, testing::Values(Implementation{"free", run}), implementation_name);
//
// The planted bugs of this layer (base/mutant.h) are run against it: the faults that training runs really have had, a
// missing 1/dp, a norm weight that nobody reduced, a reduction over tp that was left out, are each seen.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>

namespace tessera::shard::suite {

/// A way to run ranks.
struct Implementation {
  std::string name;  ///< ends the names of the cases
  /// Runs the body on this many ranks, threads of this process, and returns when all have ended. An error fails the
  /// case.
  std::function<void(int ranks, const std::function<void()>& body)> run;
};
inline void PrintTo(const Implementation& implementation, std::ostream* out) { *out << implementation.name; }
/// For INSTANTIATE_TEST_SUITE_P.
inline std::string implementation_name(const testing::TestParamInfo<Implementation>& info) { return info.param.name; }

/// See the head of this file.
class ShardSuite : public testing::TestWithParam<Implementation> {};

}  // namespace tessera::shard::suite
