// A world of hundreds of ranks on a small machine: one training step of a model that is sharded three ways, on 8x8x8
// ranks that are threads. It takes a minute on two cores and runs only in campaigns.
#include <gtest/gtest.h>

#include <mutex>

#include "tessera/autograd/autograd.h"
#include "tessera/base/rank.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/ops/create/generator.h"
#include "tessera/shard/distribute.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/testing/all_ranks.h"
#include "tessera/shard/testing/llama.h"

namespace tessera::shard {
namespace {

using testing::Llama;
using testing::LlamaSizes;

// Width 1024, 16 heads, vocabulary 256, 64 sequences of 128 tokens.
constexpr LlamaSizes kSizes{.layers = 2,
                            .width = 1024,
                            .heads = 16,
                            .hidden = 2816,
                            .vocabulary = 256,
                            .batch = 64,
                            .sequence = 128,
                            .dtype = DType::kF32};

double loss_on_one_device() {
  const autograd::NoGrad no_grad;
  ops::manual_seed(3);
  const Llama model(kSizes, std::nullopt);
  const Tensor tokens = model.numbers();
  const Tensor targets = model.numbers();
  const Tensor loss = model.loss(tokens, targets);
  ops::testing::wait_for_work();
  return ops::testing::read(loss).values[0];
}

TEST(ManyRanks, TrainAModelForOneStep) {
  const layout::Mesh mesh = layout::Mesh::parse("dp=8,fsdp=8,tp=8");
  std::mutex mutex;
  std::vector<double> losses;
  simulate(512, [&] {
    ops::manual_seed(3);
    const Llama model(kSizes, mesh);
    const Tensor tokens = model.numbers();
    const Tensor targets = model.numbers();
    const Tensor loss = gather(model.train(tokens, targets, 0.1));
    device::Device::get("host").synchronize();
    const double value = ops::testing::read(loss).values[0];
    const std::lock_guard lock(mutex);
    losses.push_back(value);
  });
  ASSERT_EQ(losses.size(), 512U);
  for (const double loss : losses) EXPECT_EQ(loss, losses[0]);
  EXPECT_NEAR(losses[0], loss_on_one_device(), 1e-4);
}

}  // namespace
}  // namespace tessera::shard
