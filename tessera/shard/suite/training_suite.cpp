// A block of norm, two products and a residual, trained with clipping and AdamW under several plans.
#include <vector>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/nn/norm.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/update/update.h"
#include "tessera/shard/gradients.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/suite/shard_suite.h"
#include "tessera/shard/testing/all_ranks.h"

namespace tessera::shard::suite {
namespace {

using layout::Layout;
using testing::on_grid;
using testing::Results;
using testing::Whole;
using Tensors = std::vector<Tensor>;

constexpr int kRanks = 4;
constexpr int kSteps = 3;
constexpr std::size_t kWeights = 3;
const Shape kShapes[kWeights] = {{6}, {6, 10}, {10, 6}};  // scale of the norm, up, down
const Shape kBatch = {7, 6};                              // which no axis divides

// Layouts of the block over dp=2,tp=2.
struct Plan {
  const char* name;
  const char* batch;              // outside of the products
  const char* inside;             // inside the products
  const char* weights[kWeights];  // stored layouts
  const char* used[kWeights];     // layouts in use
  bool settles = false;           // gradients are reduced in backward, not at the end
};
const Plan kPlans[] = {
    {"data parallel", "S0,S0", "S0,S0", {"R,R", "R,R", "R,R"}, {"R,R", "R,R", "R,R"}},
    {"tensor parallel", "S0,R", "S0,R", {"R,R", "R,S1", "R,S0"}, {"R,R", "R,S1", "R,S0"}},
    {"sequence parallel", "S0,S0", "S0,R", {"R,R", "R,S1", "R,S0"}, {"R,R", "R,S1", "R,S0"}},
    {"settling on the way", "S0,S0", "S0,R", {"R,R", "R,S1", "R,S0"}, {"R,R", "R,S1", "R,S0"}, true},
    {"fully sharded", "S0,S0", "S0,S0", {"S0,S0", "S0,S0", "S0,S0"}, {"R,R", "R,R", "R,R"}},
    {"fully sharded over dp", "S0,R", "S0,R", {"S0,R", "S0,S1", "S1,S0"}, {"R,R", "R,S1", "R,S0"}},
    {"norm over cut features", "S0,S1", "S0,R", {"R,S0", "R,S1", "R,S0"}, {"R,S0", "R,S1", "R,S0"}},
};

// Values in [-1/2, 1/2].
Whole values(const Shape& shape) {
  Whole whole = testing::counted(shape, DType::kF64);
  for (double& value : whole.values) value = value / 97 - 0.5;
  return whole;
}
Tensor number(double value, DType dtype = DType::kF64) { return testing::plain({{}, dtype, {value}}); }

// Without a plan: on one device.
Tensor laid_out(const Shape& shape, const Plan* plan, const char* (*layout)(const Plan&, std::size_t), std::size_t i) {
  return plan == nullptr ? testing::plain(values(shape)) : testing::placed(values(shape), on_grid(layout(*plan, i)));
}
Tensor batch_of(const Plan* plan) {
  return laid_out(
      kBatch, plan, [](const Plan& of, std::size_t) { return of.batch; }, 0);
}
Tensors weights_of(const Plan* plan) {
  Tensors out;
  for (std::size_t i = 0; i < kWeights; ++i) {
    out.push_back(laid_out(
        kShapes[i], plan, [](const Plan& of, std::size_t at) { return of.weights[at]; }, i));
    autograd::set_requires_grad(out.back(), true);
  }
  return out;
}

Tensor moved(const Tensor& x, const Plan* plan, const char* to) {
  return plan == nullptr ? x : redistribute(x, on_grid(to));
}

// Returns the loss of a batch, and one of the weights alone, which no rank computes a shard of if the scale is
// replicated.
Tensors losses(const Tensor& x, Tensors weights, const Plan* plan) {
  for (std::size_t i = 0; i < kWeights && plan != nullptr; ++i) {
    weights[i] = plan->settles ? settle(weights[i]) : redistribute(weights[i], on_grid(plan->used[i]), {.remat = true});
  }
  const Tensor normed = moved(ops::rms_norm(x, weights[0]), plan, plan == nullptr ? "" : plan->inside);
  const Tensor product = ops::mm(ops::relu(ops::mm(normed, weights[1])), weights[2]);
  const Tensor out = ops::add(x, moved(product, plan, plan == nullptr ? "" : plan->batch));
  return {ops::mean(ops::mul(out, out)), ops::mul(ops::sum(ops::mul(weights[0], weights[0])), 0.125)};
}

Tensors gradients_of(const Tensors& weights) {
  Tensors out;
  for (const Tensor& weight : weights) out.push_back(autograd::grad(weight));
  return out;
}

// Runs some steps. Passes the loss, the norm, then the weights of each to `hand_over`.
void train(const Plan* plan, const std::function<void(std::size_t, const Tensor&)>& hand_over) {
  const Tensor x = batch_of(plan);
  const Tensors weights = weights_of(plan);
  Tensors first;
  Tensors second;
  for (const Tensor& weight : weights) {
    first.push_back(ops::mul(weight.detach(), 0));
    second.push_back(ops::mul(weight.detach(), 0));
  }
  const Tensor step = number(0, DType::kI64);
  std::size_t next = 0;
  for (int i = 0; i < kSteps; ++i) {
    for (const Tensor& weight : weights) autograd::set_grad(weight, {});
    const Tensors loss = losses(x, weights, plan);
    autograd::backward(loss, {});
    if (plan != nullptr && !plan->settles) reduce_gradients(weights);
    const autograd::NoGrad no_grad;
    const ops::GradNorm norm = ops::grad_norm(gradients_of(weights), 0.25);
    ops::adamw_(weights, gradients_of(weights), first, second, step,
                {.learning_rate = number(0.125), .clip_factor = norm.factor});
    hand_over(next++, loss[0].detach());
    hand_over(next++, norm.norm);
    for (const Tensor& weight : weights) hand_over(next++, weight.detach());
  }
}

TEST_P(ShardSuite, TrainingIsThatOfOneDeviceUnderEveryPlan) {
  std::vector<Whole> want;
  train(nullptr, [&](std::size_t, const Tensor& tensor) {
    ops::testing::wait_for_work();
    want.push_back(ops::testing::read(tensor));
  });
  ASSERT_GT(want[1].values[0], 0.25) << "gradients are to be clipped";
  for (const Plan& plan : kPlans) {
    SCOPED_TRACE(plan.name);
    Results results(kRanks);
    GetParam().run(kRanks, [&] { train(&plan, [&](std::size_t n, const Tensor& x) { results.hand_in(n, x); }); });
    if (HasFailure()) return;
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(ops::testing::difference(results.whole(i), want[i], 1e-9, results.layout(i)), "") << "number " << i;
    }
  }
}

TEST_P(ShardSuite, GradientsOfMicroBatchesAddUpBeforeTheyAreReduced) {
  const Plan& plan = kPlans[2];
  const auto accumulate = [](const Tensor& x, const Tensors& weights, const Plan* of) {
    for (int i = 0; i < 2; ++i) autograd::backward(ops::mul(losses(x, weights, of)[0], 0.5));
  };
  Results results(kRanks);
  GetParam().run(kRanks, [&] {
    const Tensors weights = weights_of(&plan);
    accumulate(batch_of(&plan), weights, &plan);
    reduce_gradients(weights);
    for (std::size_t i = 0; i < kWeights; ++i) results.hand_in(i, autograd::grad(weights[i]));
  });
  if (HasFailure()) return;
  const Tensors weights = weights_of(nullptr);
  accumulate(batch_of(nullptr), weights, nullptr);
  ops::testing::wait_for_work();
  for (std::size_t i = 0; i < kWeights; ++i) {
    const Whole want = ops::testing::read(autograd::grad(weights[i]));
    EXPECT_EQ(ops::testing::difference(results.whole(i), want, 1e-9, results.layout(i)), "") << i;
  }
}

TEST_P(ShardSuite, AReductionThatAProgramForgetsIsAnError) {
  const Plan& plan = kPlans[2];
  GetParam().run(kRanks, [&] {
    const Tensor x = batch_of(&plan);
    const Tensors weights = weights_of(&plan);
    // Over tp, after the product of sharded rows.
    const Tensor normed = redistribute(ops::rms_norm(x, weights[0]), on_grid("S0,R"));
    const Tensor product = ops::mm(ops::relu(ops::mm(normed, weights[1])), weights[2]);
    expect_error<InvalidArgument>([&] { ops::relu(product); }, {"relu", "all-reduce over tp"});
    // Gradient of the scale over both axes, the others over dp.
    autograd::backward(losses(x, weights, &plan)[0]);
    const autograd::NoGrad no_grad;
    const auto update = [&] { ops::sgd_(weights, gradients_of(weights), {}, {.learning_rate = number(0.125)}); };
    expect_error<InvalidArgument>(update, {"index 0 of the lists", "reduce_gradients()"});
    expect_error<InvalidArgument>([&] { ops::clip_grad_norm_(gradients_of(weights), 1); },
                                  {"grads[0]", "reduce_gradients()"});
    reduce_gradients({weights.data(), 1});
    expect_error<InvalidArgument>(update, {"index 1 of the lists", "reduce_gradients()"});
    reduce_gradients(weights);
    update();
  });
}

}  // namespace
}  // namespace tessera::shard::suite
