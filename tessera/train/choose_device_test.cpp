// The device of a run: the best that can run the model, or the named one, with a reason if it cannot.
#include "tessera/train/detail/choose_device.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/device/backend.h"
#include "tessera/device/example/example_device.h"
#include "tessera/ops/create/generator.h"
#include "tessera/train/testing/told_runs.h"

namespace tessera::train {
namespace {

// Adds a device of another kind, with memory and streams but no operator.
void add_example_device() {
  [[maybe_unused]] static const bool kIsRegistered = device::register_device_kind(
      {"example", [](std::string& /*why_none*/) { return std::vector{device::example::make_example_device()}; }});
}

TEST(ChooseDevice, TakesTheHostIfNoOtherHasEveryOperator) {
  add_example_device();
  ops::manual_seed(4);
  const ops::GeneratorState before = ops::generator_state();
  EXPECT_EQ(detail::choose_device(resolved({}, 1)).name(), "host");
  EXPECT_EQ(ops::generator_state().call, before.call) << "a trial draws nothing";
  Config config;
  config.run.device = "host";
  EXPECT_EQ(detail::choose_device(resolved(config, 1)).name(), "host");
}

TEST(ChooseDevice, ErrorsNameTheOperatorOrTheDevices) {
  add_example_device();
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
  add_example_device();
  Config refused = config();
  refused.run.device = "example";
  expect_error<InvalidArgument>([&] { (void)run_and(refused); }, {"run.device: example must have every operator"});
  EXPECT_FALSE(std::filesystem::exists(path()));
}

}  // namespace
}  // namespace tessera::train
