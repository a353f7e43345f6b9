// The conformance suite of the trainer, for ranks that are threads.
#include <exception>

#include "tessera/train/suite/train_suite.h"

namespace tessera::train::suite {
namespace {

testing::Curve run_on_threads(const Config& config) {
  try {
    return testing::run_on_ranks(config);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
    return {};
  }
}

INSTANTIATE_TEST_SUITE_P(Thread, TrainSuite, ::testing::Values(TrainImplementation{"free", run_on_threads}),
                         implementation_name);

}  // namespace
}  // namespace tessera::train::suite
