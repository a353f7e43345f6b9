// Optimizers: their updates against formulas, groups, frozen parameters, state, and errors.
#include "tessera/nn/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/nn/optim/adamw.h"
#include "tessera/nn/optim/lion.h"
#include "tessera/nn/optim/muon.h"
#include "tessera/nn/optim/sgd.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/shape.h"

namespace tessera::nn {
namespace {

// A leaf of equal elements with a gradient of equal elements.
Tensor leaf(const Shape& shape, double value, double gradient) {
  Tensor out = ops::full(shape, value);
  autograd::set_requires_grad(out, true);
  autograd::set_grad(out, ops::full(shape, gradient));
  return out;
}
double first_of(const Tensor& x) { return ops::item(ops::select(ops::flatten(x.detach()), 0, 0)).as_double(); }

TEST(AdamW, MovesByTheLearningRateAndDecaysByGroup) {
  const Tensor decayed = leaf({3}, 2, 5);
  const Tensor kept = leaf({2}, 2, -5);
  AdamW optimizer({{.parameters = {decayed}}, {.parameters = {kept}, .weight_decay = 0, .learning_rate_factor = 2}},
                  {.learning_rate = 0.125, .weight_decay = 0.5});
  optimizer.step();
  EXPECT_NEAR(first_of(decayed), 2 * (1 - 0.125 * 0.5) - 0.125, 1e-5);
  EXPECT_NEAR(first_of(kept), 2 + 0.25, 1e-5);
  EXPECT_FALSE(autograd::grad(decayed)) << "a step clears gradients";
}

TEST(Sgd, FollowsMomentum) {
  const Tensor x = leaf({2}, 1, 1);
  Sgd optimizer({x}, {.learning_rate = 0.25, .momentum = 0.5});
  optimizer.step({.keeps_gradients = true});
  EXPECT_NEAR(first_of(x), 0.75, 1e-6);
  optimizer.step({.keeps_gradients = true});
  EXPECT_NEAR(first_of(x), 0.75 - 0.25 * 1.5, 1e-6);
  optimizer.set_learning_rate(0);
  optimizer.step();
  EXPECT_NEAR(first_of(x), 0.75 - 0.25 * 1.5, 1e-6);
}

TEST(Lion, MovesBySigns) {
  const Tensor up = leaf({5}, 1, -1e-6);
  const Tensor down = leaf({3}, 1, 1e6);
  const Tensor still = leaf({2}, 1, 0);
  Lion optimizer({up, down, still}, {.learning_rate = 0.125});
  optimizer.step();
  EXPECT_NEAR(first_of(up), 1.125, 1e-6);
  EXPECT_NEAR(first_of(down), 0.875, 1e-6);
  EXPECT_EQ(first_of(still), 1);
}

// Largest difference of x x^T and the identity, for a wide x.
double distance_from_orthogonal(const Tensor& x) {
  const Tensor square = ops::mm(x, ops::transpose(x, 0, 1));
  return ops::item(ops::amax(ops::abs(ops::sub(square, ops::eye(x.size(0), x.size(0)))))).as_double();
}

TEST(Orthogonalize, BringsSingularValuesNearOne) {
  ops::manual_seed(7);
  const Tensor wide = ops::randn({16, 64});
  EXPECT_GT(distance_from_orthogonal(wide), 10);
  EXPECT_LT(distance_from_orthogonal(orthogonalize(wide)), 0.6);
  const Tensor tall = ops::transpose(wide, 0, 1);
  EXPECT_LT(distance_from_orthogonal(ops::transpose(orthogonalize(tall), 0, 1)), 0.6);
  EXPECT_EQ(ops::item(ops::norm(orthogonalize(ops::zeros({4, 4})))).as_double(), 0) << "no division by zero";
}

TEST(Muon, StepsAreAsLargeAsThoseOfAdamW) {
  ops::manual_seed(7);
  const Tensor x = leaf({32, 96}, 0, 0);
  autograd::set_grad(x, ops::randn({32, 96}));
  Muon optimizer({x}, {.learning_rate = 0.5, .weight_decay = 0});
  optimizer.step();
  const double rms = ops::item(ops::norm(x.detach())).as_double() / std::sqrt(32.0 * 96.0);
  EXPECT_NEAR(rms, 0.5 * 0.2, 0.03);
}

TEST(Muon, LeavesASkippedStepAlone) {
  const Tensor x = leaf({4, 4}, 1, NAN);
  Muon optimizer({x});
  optimizer.step({.scalars = {.skip = ops::full({}, 1, {.dtype = DType::kBool})}, .keeps_gradients = true});
  EXPECT_EQ(first_of(x), 1);
  autograd::set_grad(x, ops::ones({4, 4}));
  optimizer.step({.scalars = {.skip = ops::full({}, 0, {.dtype = DType::kBool})}});
  EXPECT_LT(first_of(x), 1) << "the state has no NaN of the skipped step";
}

TEST(Muon, TakesMatricesAlone) {
  expect_error<InvalidArgument>([] { Muon({leaf({3}, 1, 1)}); }, {"Muon: parameters must be matrices, got f32[3]"});
}

TEST(Optimizer, LeavesOutFrozenParameters) {
  const Tensor frozen = ops::ones({2});
  const Tensor x = leaf({2}, 1, 1);
  AdamW optimizer({frozen, x});
  optimizer.step();
  EXPECT_EQ(first_of(frozen), 1);
  EXPECT_EQ(optimizer.nbytes(), 2 * 2 * 4 + 8) << "two states of x, and the count of steps";
}

TEST(Optimizer, NamesItsState) {
  const Tensor a = leaf({2}, 1, 1);
  const Tensor b = leaf({3}, 1, 1);
  const AdamW optimizer({{.parameters = {a}}, {.parameters = {b}}});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : optimizer.state(std::vector<NamedTensor>{{"b", b}, {"a", a}}))
    names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"first/a", "second/a", "steps/0", "first/b", "second/b", "steps/1"}));
  expect_error<InvalidArgument>(
      [&] {
        (void)optimizer.state(std::vector<NamedTensor>{{"a", a}});
      },
      {"state requires a name for each parameter, got none for f32[3]"});
}

TEST(Optimizer, RejectsWhatItCannotUpdate) {
  const Tensor x = leaf({2}, 1, 1);
  expect_error<InvalidArgument>([&] { AdamW({x, x}); }, {"AdamW: parameter 1, f32[2], must be given once"});
  expect_error<InvalidArgument>([&] { AdamW({x, Tensor()}); }, {"parameter 1 must be a tensor"});
  expect_error<InvalidArgument>([&] { AdamW({ops::mul(x, 2)}); }, {"must be a leaf"});
  expect_error<InvalidArgument>([&] { AdamW({x}, {.learning_rate = -1}); }, {"learning rate must be", "got -1"});
  const Tensor without = leaf({4}, 1, 1);
  autograd::set_grad(without, {});
  Sgd optimizer({x, without});
  expect_error<InvalidArgument>([&] { optimizer.step(); }, {"Sgd: parameter 1, f32[4], must have a gradient"});
  EXPECT_EQ(first_of(x), 1) << "nothing changed";
}

TEST(ClipGradNorm, ScalesGradientsThatExist) {
  const Tensor x = leaf({4}, 1, 2);
  const Tensor without = leaf({4}, 1, 1);
  autograd::set_grad(without, {});
  EXPECT_NEAR(first_of(clip_grad_norm(std::vector{x, without}, 1)), 4, 1e-6);
  EXPECT_NEAR(first_of(autograd::grad(x)), 0.5, 1e-6);
  expect_error<InvalidArgument>([&] { (void)clip_grad_norm(std::vector{without}, 1); }, {"must have a gradient"});
}

}  // namespace
}  // namespace tessera::nn
