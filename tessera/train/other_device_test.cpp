// Steps on another device than the host of the rank: a second host device, whose streams run on their own threads. Its
// batches are uploaded, and read ahead of their steps.
#include <gtest/gtest.h>

#include <vector>

#include "tessera/base/error.h"
#include "tessera/comm/world.h"
#include "tessera/device/host/host_device.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/testing/replays.h"
#include "tessera/train/testing/runs.h"

namespace tessera::train {
namespace {

using testing::ReplayResults;

ReplayResults results(const Config& config, bool is_other) {
  ReplayResults seen;
  simulate(1, [&] {
    const tensor::DeviceScope scope(is_other ? device::host::make_host_device() : tensor::host_device());
    seen = testing::seen_run(config);
  });
  return seen;
}

TEST(OtherDevice, StepsHaveTheBitsOfTheHost) {
  Config config = testing::small_config();
  config.train.steps = 12;
  config.model.dropout = 0.2;
  for (const char* dtype : {"f32", "bf16"}) {
    for (const std::int64_t accumulate : {1, 2}) {
      config.train.dtype = dtype;
      config.train.accumulate = accumulate;
      config.train.graph = false;
      const ReplayResults want = results(config, false);
      EXPECT_EQ(testing::difference(results(config, true), want), "") << dtype << ", " << accumulate;
      config.train.graph = true;
      EXPECT_EQ(testing::difference(results(config, true), want), "") << dtype << ", " << accumulate << ", replayed";
    }
  }
}

// Returns rows of one token, and notes the numbers of the batches.
BatchSource noted_rows(const Config& config, std::vector<std::uint64_t>& asked) {
  return [&asked, count = config.train.batch / config.train.accumulate * (config.model.sequence + 1)](std::uint64_t k) {
    asked.push_back(k);
    TESSERA_CHECK_AS(IoError, k != 6, "batch 6 cannot be read");
    return std::vector<std::int32_t>(static_cast<std::size_t>(count), static_cast<std::int32_t>(k % 7));
  };
}

TEST(OtherDevice, BatchesAreReadOnceAndAnErrorBelongsToItsStep) {
  for (const bool is_graph : {false, true}) {
    simulate(1, [&] {
      const tensor::DeviceScope scope(device::host::make_host_device());
      Config config = testing::small_config();
      config.train.accumulate = 2;
      config.train.graph = is_graph;
      std::vector<std::uint64_t> asked;
      Trainer trainer(config, noted_rows(config, asked));
      for (int i = 0; i < 3; ++i) trainer.step();
      EXPECT_THROW((void)trainer.step(), IoError) << "batches 6 and 7 are those of step 4";
      for (std::size_t i = 0; i < asked.size(); ++i) EXPECT_EQ(asked[i], i);
    });
  }
}

}  // namespace
}  // namespace tessera::train
