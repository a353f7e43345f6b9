// Backward runs: sums over paths, accumulation, chosen inputs, second derivatives, freed and rejected state.
#include <gtest/gtest.h>

#include "tessera/autograd/hooks.h"
#include "tessera/autograd/testing/test_ops.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::autograd::testing {
namespace {

using Values = std::vector<double>;

TEST(Backward, GivesTheGradientOfALeaf) {
  const Tensor x = leaf_of({2}, {2, 3});
  const Tensor c = tensor_of({2}, {5, 7});
  backward(sum(mul(x, c)));
  EXPECT_EQ(values_of(grad(x)), Values({5, 7}));
  EXPECT_FALSE(grad(c));
}

TEST(Backward, SumsOverThePathsOfADiamond) {
  const Tensor x = leaf_of({1}, {2});
  const Tensor y = mul(x, x);                                 // 4
  const Tensor z = add(mul(y, tensor_of({1}, {3})), exp(y));  // 3y + e^y
  backward(z);
  EXPECT_DOUBLE_EQ(values_of(grad(x))[0], 4 * (3 + std::exp(4.0)));
}

TEST(Backward, KnowsThatOneTensorIsUsedTwice) {
  const Tensor x = leaf_of({1}, {3});
  backward(mul(x, x));
  EXPECT_EQ(values_of(grad(x)), Values({6}));

  const Tensor a = leaf_of({2, 2}, {1, 2, 3, 4});
  backward(sum(mm(a, transpose(a))));  // (sum of each column squared): 2 * column sums
  EXPECT_EQ(values_of(grad(a)), Values({8, 12, 8, 12}));
}

TEST(Backward, AccumulatesOverRuns) {
  const Tensor x = leaf_of({1}, {3});
  backward(mul(x, x));
  const Tensor first = grad(x);
  backward(neg(x));
  EXPECT_EQ(values_of(grad(x)), Values({5}));
  EXPECT_EQ(values_of(first), Values({6})) << "who holds the first gradient keeps it";
  set_grad(x, {});
  EXPECT_FALSE(grad(x));
}

TEST(Backward, TakesTheFirstGradientOverUnlessSomebodyElseHoldsIt) {
  const Tensor a = leaf_of({2}, {1, 2});
  const Tensor b = leaf_of({2}, {3, 4});
  const Tensor given = tensor_of({2}, {1, 1});
  backward(add(a, b), given);
  EXPECT_FALSE(grad(a).data() == grad(b).data()) << "one may be changed in place without the other";
  EXPECT_FALSE(grad(a).data() == given.data());
  const Tensor x = leaf_of({2}, {1, 2});
  const std::byte* made = nullptr;
  on_gradient(x, [&](const Tensor& gradient) {
    made = gradient.data();
    return Tensor();
  });
  backward(mul(x, given), given);
  EXPECT_EQ(grad(x).data(), made);
}

TEST(Backward, LeavesUnusedOutputsOut) {
  const Tensor x = leaf_of({1}, {2});
  std::vector<Tensor> both(2);
  tensor::call_into({kBoth, std::span(&x, 1), {}, both});
  backward(mul(both[1], both[1]));
  EXPECT_EQ(values_of(grad(x)), Values({4}));
}

TEST(Backward, SkipsWhereNoGradientFlows) {
  static const Operator kStop = register_op({.name = "test.stop",
                                             .inputs = "x",
                                             .infer = infer_like_first,
                                             .host = unary_kernel<minus>,
                                             .gradient = [](GradientCall&) {}});
  const Tensor x = leaf_of({1}, {2});
  const Tensor y = leaf_of({1}, {5});
  backward(mul(tensor::call(kStop, {exp(x)}), y));
  EXPECT_FALSE(grad(x));
  EXPECT_EQ(values_of(grad(y)), Values({-std::exp(2.0)}));
}

TEST(Backward, NeedsAGradientForMoreThanOneElement) {
  const Tensor x = leaf_of({2}, {2, 3});
  expect_error<InvalidArgument>([&] { backward(neg(x)); }, {"requires a gradient, got f64[2] on host"});
  expect_error<InvalidArgument>(
      [&] {
        backward(neg(x), tensor_of({3}, {1, 1, 1}));
      },
      {"shape and dtype of f64[2]", "got f64[3]"});
  expect_error<InvalidArgument>([&] { backward(tensor_of({1}, {1})); },
                                {"output must depend on a tensor that requires a gradient"});
}

TEST(Backward, RunsTwiceOnlyWhenTheGraphIsRetained) {
  const Tensor x = leaf_of({1}, {3});
  const Tensor y = mul(x, x);
  backward(y, {}, {.retain_graph = true});
  backward(y);
  EXPECT_EQ(values_of(grad(x)), Values({12}));
  expect_error<InvalidArgument>([&] { backward(y); }, {"test.mul", "retain_graph"});
}

TEST(Backward, FreesWhatWasSaved) {
  const Tensor x = leaf_of({1}, {3});
  Tensor y = exp(x);
  const Tensor z = mul(y, y);
  const auto holders = [&] { return y.state()->storage->count(); };
  EXPECT_EQ(holders(), 4U) << "y itself, the result of exp, and twice the input of mul";
  backward(z);
  EXPECT_EQ(holders(), 1U);
}

TEST(Backward, RunsFromSeveralTensorsAtOnce) {
  const Tensor x = leaf_of({1}, {3});
  const Tensor y = mul(x, x);
  backward(std::vector<Tensor>{y, neg(y), x}, {tensor_of({1}, {1}), tensor_of({1}, {10}), tensor_of({1}, {100})});
  EXPECT_EQ(values_of(grad(x)), Values({6 - 60 + 100}));
}

TEST(Backward, NamesAnOperatorWithoutAGradient) {
  const Tensor x = leaf_of({1}, {3});
  const Tensor y = mul(x, tensor::call(kOpaque, {x}));
  expect_error<NotSupported>([&] { backward(y); }, {"test.opaque has no gradient", "detach()"});
  expect_error<InvalidArgument>([&] { backward(y); }, {"test.mul", "retain_graph"});
  EXPECT_FALSE(requires_grad(tensor::call(kIsPositive, {x}))) << "integers need no gradient";
}

TEST(Backward, AnErrorLeavesNothingInFlight) {
  static bool fails = true;
  static const Operator kFails = register_op({.name = "test.fails",
                                              .inputs = "x",
                                              .infer = infer_like_first,
                                              .host = unary_kernel<minus>,
                                              .gradient = [](GradientCall& call) {
                                                TESSERA_CHECK(!fails, "told to fail");
                                                call.set(0, neg(call.grad()));
                                              }});
  const Tensor x = leaf_of({1}, {3});
  const Tensor y = mul(x, x);
  const Tensor failing = tensor::call(kFails, {y});
  const Tensor z = add(failing, mul(y, tensor_of({1}, {3})));
  expect_error<InvalidArgument>([&] { backward(z, {}, {.retain_graph = true}); }, {"told to fail"});
  EXPECT_FALSE(grad(x));
  fails = false;
  backward(z);
  EXPECT_EQ(values_of(grad(x)), Values({12})) << "no gradient of the failed run is left";
}

TEST(Backward, ChecksWhatAGradientGives) {
  static const Operator kWrong = register_op({.name = "test.wrong",
                                              .inputs = "x",
                                              .infer = infer_like_first,
                                              .host = unary_kernel<minus>,
                                              .gradient = [](GradientCall& call) { call.set(0, sum(call.grad())); }});
  const Tensor x = leaf_of({2}, {3, 4});
  expect_error<InvalidArgument>([&] { backward(sum(tensor::call(kWrong, {x}))); },
                                {"test.wrong", "gradient of input 0 must be f64[2], got f64[] on host"});
}

TEST(Gradients, AreThoseOfChosenTensorsAndTouchNoLeaf) {
  const Tensor x = leaf_of({1}, {2});
  const Tensor w = leaf_of({1}, {5});
  const Tensor y = mul(x, w);
  const Tensor z = mul(y, y);
  const auto found = gradients({z}, {y, x}, {});
  EXPECT_EQ(values_of(found[0]), Values({20}));
  EXPECT_EQ(values_of(found[1]), Values({100}));
  EXPECT_FALSE(grad(x));
  EXPECT_FALSE(grad(w));
}

TEST(Gradients, RunOnlyWhatLiesBetween) {
  const Tensor x = leaf_of({1}, {2});
  const Tensor y = exp(x);
  const Tensor other = tensor::call(kOpaque, {leaf_of({1}, {1})});
  const Tensor z = mul(y, other);
  const auto found = gradients({z}, {y});
  EXPECT_EQ(values_of(found[0]), values_of(other));
  backward(y);  // this call did not run, so it is not consumed
  EXPECT_TRUE(grad(x));
}

TEST(Gradients, RefuseUnusedInputsUnlessTheyAreAllowed) {
  const Tensor x = leaf_of({1}, {2});
  const Tensor unused = leaf_of({1}, {2});
  expect_error<InvalidArgument>([&] { (void)gradients({neg(x)}, {x, unused}); }, {"input 1", "allow_unused"});
  const auto found = gradients({neg(x)}, {x, unused}, {}, {.allow_unused = true});
  EXPECT_EQ(values_of(found[0]), Values({-1}));
  EXPECT_FALSE(found[1]);
  EXPECT_EQ(values_of(gradients({x}, {x})[0]), Values({1}));
  expect_error<InvalidArgument>([&] { (void)gradients({x}, {tensor_of({1}, {1})}); }, {"input 0", "set_requires_grad"});
}

TEST(CreateGraph, GivesSecondAndThirdDerivatives) {
  const Tensor x = leaf_of({1}, {2});
  const Tensor y = mul(mul(x, x), x);
  const Tensor first = gradients({y}, {x}, {}, {.create_graph = true})[0];
  const Tensor second = gradients({first}, {x}, {}, {.create_graph = true})[0];
  const Tensor third = gradients({second}, {x})[0];
  EXPECT_EQ(values_of(first), Values({12}));
  EXPECT_EQ(values_of(second), Values({12}));
  EXPECT_EQ(values_of(third), Values({6}));
}

TEST(CreateGraph, GoesThroughSavedResults) {
  const Tensor x = leaf_of({1}, {2});
  const Tensor y = exp(mul(x, x));  // e^(x^2): first 2x e^.., second (2 + 4x^2) e^..
  backward(y, {}, {.create_graph = true});
  const Tensor first = grad(x);
  set_grad(x, {});
  backward(first);
  EXPECT_DOUBLE_EQ(values_of(first)[0], 4 * std::exp(4.0));
  EXPECT_DOUBLE_EQ(values_of(grad(x))[0], 18 * std::exp(4.0));
  set_grad(x, {});
}

TEST(CreateGraph, WithoutItGradientsHaveNoHistory) {
  const Tensor x = leaf_of({1}, {2});
  EXPECT_FALSE(requires_grad(gradients({mul(x, x)}, {x})[0]));
}

}  // namespace
}  // namespace tessera::autograd::testing
