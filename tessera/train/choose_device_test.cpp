// The device of a run: the best that can run the model, or the named one, with a reason if it cannot.
#include "tessera/train/detail/choose_device.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/ops/create/generator.h"
#include "tessera/train/testing/example_device.h"
#include "tessera/train/testing/told_runs.h"

namespace tessera::train {
namespace {

using testing::ExampleDeviceScope;

TEST(ChooseDevice, TakesTheHostIfNoOtherHasEveryOperator) {
  const ExampleDeviceScope example;
  ops::manual_seed(4);
  const ops::GeneratorState before = ops::generator_state();
  const detail::ChosenDevice chosen = detail::choose_device(resolved({}, 1));
  EXPECT_EQ(chosen.device.name(), "host");
  EXPECT_NE(chosen.why_not.find("the example device has no address ranges"), std::string::npos) << chosen.why_not;
  EXPECT_EQ(ops::generator_state().call, before.call) << "a trial draws nothing";
  Config config;
  config.run.device = "host";
  EXPECT_EQ(detail::choose_device(resolved(config, 1)).device.name(), "host");
  EXPECT_EQ(detail::choose_device(resolved(config, 1)).why_not, "");
}

TEST(ChooseDevice, RanksThatNoBackendConnectsStayOnTheHost) {
  const ExampleDeviceScope example;
  simulate(2, [] {
    Config config;
    EXPECT_EQ(detail::choose_device(resolved(config, 2)).device.name(), "host");
    config.run.device = "example";
    expect_error<InvalidArgument>([&] { (void)detail::choose_device(resolved(config, 2)); },
                                  {"run.device: example must connect the ranks", "no backend connects ranks"});
  });
}

TEST(ChooseDevice, ErrorsNameTheOperatorOrTheDevices) {
  const ExampleDeviceScope example;
  Config config;
  config.run.device = "example";
  expect_error<InvalidArgument>([&] { (void)detail::choose_device(resolved(config, 1)); },
                                {"run.device: example must have every operator of llama, got: ", "use auto"});
  config.run.device = "abacus";
  expect_error<InvalidArgument>([&] { (void)detail::choose_device(resolved(config, 1)); },
                                {"run.device: must be auto or a device of this machine, got 'abacus'", "host"});
}

class RunDevice : public testing::ToldRuns {};

TEST_F(RunDevice, ARefusedDeviceLeavesNoDirectory) {
  const ExampleDeviceScope example;
  Config refused = config();
  refused.run.device = "example";
  expect_error<InvalidArgument>([&] { (void)run_and(refused); }, {"run.device: example must have every operator"});
  EXPECT_FALSE(std::filesystem::exists(path()));
}

}  // namespace
}  // namespace tessera::train
