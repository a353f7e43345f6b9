// What the trainer promises, as tests that are written once: the same numbers on every mesh. Each way of running ranks
// instantiates them in a file of its own. The planted bugs of this layer (base/mutant.h) are run against it: the faults
// that training runs really have had, a missing 1/dp, a norm weight that nobody reduced, a reduction over tp that was
// left out, a pending gradient that was stepped along, are each seen; so are faults that steps have which are replayed:
// random numbers that never change, a bad step that is taken all the same, a learning rate that stays, batches that do.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>

#include "tessera/train/config.h"
#include "tessera/train/testing/runs.h"

namespace tessera::train::suite {

/// A way to run ranks.
struct Implementation {
  std::string name;                                              ///< ends the names of the cases
  std::function<testing::Curve(const Config& config)> run = {};  ///< on the ranks of its mesh; what the first one saw
};
inline void PrintTo(const Implementation& implementation, std::ostream* out) { *out << implementation.name; }
/// For INSTANTIATE_TEST_SUITE_P.
inline std::string implementation_name(const ::testing::TestParamInfo<Implementation>& info) { return info.param.name; }

/// See the head of this file.
class TrainSuite : public ::testing::TestWithParam<Implementation> {};

}  // namespace tessera::train::suite
