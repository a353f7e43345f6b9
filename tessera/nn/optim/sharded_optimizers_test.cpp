// Optimizers on sharded parameters: the values of one device.
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "tessera/autograd/autograd.h"
#include "tessera/base/rank.h"
#include "tessera/comm/world.h"
#include "tessera/nn/optim/adamw.h"
#include "tessera/nn/optim/lion.h"
#include "tessera/nn/optim/muon.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/shard/testing/all_ranks.h"

namespace tessera::nn {
namespace {

using shard::testing::counted;
using shard::testing::on_grid;
using shard::testing::placed;
using shard::testing::plain;
using shard::testing::Results;
using shard::testing::Whole;
using Make = std::function<std::unique_ptr<Optimizer>(std::vector<Tensor>)>;

Whole scaled(Whole whole, double by) {
  for (double& value : whole.values) value *= by;
  return whole;
}

// Two steps; the second one is skipped. Then one more.
void take_steps(Optimizer& optimizer, const std::vector<Tensor>& gradients, const std::vector<Tensor>& parameters) {
  for (const double skip : {0.0, 1.0, 0.0}) {
    for (std::size_t i = 0; i < parameters.size(); ++i) autograd::set_grad(parameters[i], gradients[i]);
    optimizer.step(
        {.scalars = {.clip_factor = plain({{}, DType::kF32, {0.5}}), .skip = plain({{}, DType::kBool, {skip}})}});
  }
}

void expect_values_of_one_device(const Make& make) {
  const Shape shapes[] = {{8, 6}, {5, 3}, {4, 4}};
  std::vector<Tensor> expected;
  std::vector<Tensor> gradients;
  for (const Shape& shape : shapes) {
    expected.push_back(shard::testing::leaf(plain(counted(shape))));
    gradients.push_back(plain(scaled(counted(shape), -0.25)));
  }
  take_steps(*make(expected), gradients, expected);
  Results results(4);
  simulate(4, [&] {
    const char* layouts[] = {"S0,R", "R,S1", "S0,S1"};
    std::vector<Tensor> parameters;
    std::vector<Tensor> own;
    for (std::size_t i = 0; i < std::size(shapes); ++i) {
      parameters.push_back(shard::testing::leaf(placed(counted(shapes[i]), on_grid(layouts[i]))));
      own.push_back(placed(scaled(counted(shapes[i]), -0.25), on_grid(layouts[i])));
    }
    const std::unique_ptr<Optimizer> optimizer = make(parameters);
    take_steps(*optimizer, own, parameters);
    for (std::size_t i = 0; i < parameters.size(); ++i) results.hand_in(i, parameters[i].detach());
  });
  for (std::size_t i = 0; i < std::size(shapes); ++i) {
    EXPECT_EQ(results.wrong_with(i, shard::testing::read(expected[i].detach()), 1e-5), "") << "parameter " << i;
  }
}

TEST(ShardedOptimizers, AdamWHasTheValuesOfOneDevice) {
  expect_values_of_one_device([](std::vector<Tensor> parameters) { return std::make_unique<AdamW>(parameters); });
}

TEST(ShardedOptimizers, LionHasTheValuesOfOneDevice) {
  expect_values_of_one_device([](std::vector<Tensor> parameters) {
    return std::make_unique<Lion>(parameters, LionOptions{.learning_rate = 0.1, .weight_decay = 0.1});
  });
}

TEST(ShardedOptimizers, MuonHasTheValuesOfOneDevice) {
  expect_values_of_one_device([](std::vector<Tensor> parameters) { return std::make_unique<Muon>(parameters); });
}

}  // namespace
}  // namespace tessera::nn
