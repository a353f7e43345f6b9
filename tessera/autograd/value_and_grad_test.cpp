// Methods of tensors for gradients, and the functional form.
#include "tessera/autograd/value_and_grad.h"

#include <gtest/gtest.h>

#include <vector>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/pointwise.h"

namespace tessera::autograd {
namespace {

TEST(GradientMethods, CallTheFunctions) {
  const Tensor w = ops::full({2}, 3).requires_grad_();
  EXPECT_TRUE(w.requires_grad());
  EXPECT_FALSE(w.grad());
  w.square().sum().backward();
  EXPECT_EQ(w.grad()[0].item<double>(), 6);
  (w * 2).backward(ops::ones({2}));
  EXPECT_EQ(w.grad()[1].item<double>(), 8);
  w.zero_grad();
  EXPECT_FALSE(w.grad());
  {
    const NoGrad no_grad;
    w -= 0.5;
  }
  EXPECT_EQ(w[0].item<double>(), 2.5);
  w.requires_grad_(false);
  EXPECT_FALSE(w.requires_grad());
}

TEST(ValueAndGrad, ReturnsBothAndLeavesTheArgumentsAlone) {
  const Tensor a = ops::full({2}, 3);
  const Tensor b = ops::full({2}, 5).requires_grad_();
  const auto [value, grads] = value_and_grad([](const Tensor& x, const Tensor& y) { return (x * y * y).sum(); })(a, b);
  EXPECT_EQ(value.item<double>(), 150);
  EXPECT_FALSE(value.requires_grad());
  ASSERT_EQ(grads.size(), 2U);
  EXPECT_EQ(grads[0][0].item<double>(), 25);
  EXPECT_EQ(grads[1][1].item<double>(), 30);
  EXPECT_FALSE(b.grad());
  EXPECT_FALSE(a.requires_grad());
}

TEST(ValueAndGrad, TakesAListOfTensors) {
  const std::vector<Tensor> weights = {ops::full({}, 2), ops::full({}, 7)};
  const auto product = [](const std::vector<Tensor>& all) { return all[0] * all[1]; };
  const ValueAndGrad found = value_and_grad(product)(weights);
  EXPECT_EQ(found.value.item<double>(), 14);
  EXPECT_EQ(found.grads.at(0).item<double>(), 7);
  EXPECT_EQ(found.grads.at(1).item<double>(), 2);
}

TEST(ValueAndGrad, RecordsInsideNoGradAndRejectsUnusedArguments) {
  const NoGrad no_grad;
  const Tensor x = ops::full({}, 3);
  EXPECT_EQ(value_and_grad([](const Tensor& y) { return y * y; })(x).grads.at(0).item<double>(), 6);
  EXPECT_THROW((void)value_and_grad([](const Tensor& y, const Tensor& /*unused*/) { return y * y; })(x, x),
               InvalidArgument);
}

}  // namespace
}  // namespace tessera::autograd
