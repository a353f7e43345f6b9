// Recorded and rejected calls: leaves, modes, in-place calls, views, saved tensors that changed.
#include <gtest/gtest.h>

#include "tessera/autograd/testing/test_ops.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/memory/label.h"

namespace tessera::autograd::testing {
namespace {

using Values = std::vector<double>;

TEST(Leaf, AsksForGradientsUntilToldNotTo) {
  const Tensor x = tensor_of({1}, {1});
  EXPECT_FALSE(requires_grad(x));
  EXPECT_FALSE(requires_grad(neg(x)));
  set_requires_grad(x, true);
  EXPECT_TRUE(requires_grad(x));
  EXPECT_TRUE(is_leaf(x));
  const Tensor y = neg(x);
  EXPECT_TRUE(requires_grad(y));
  EXPECT_FALSE(is_leaf(y));
  EXPECT_FALSE(requires_grad(y.detach()));
  set_requires_grad(x, false);
  EXPECT_FALSE(requires_grad(neg(x)));
}

TEST(Leaf, RefusesWhatHasNoGradient) {
  const Tensor integers = Tensor::allocate({2}, DType::kI64, device::Device::get("host"));
  expect_error<InvalidArgument>([&] { set_requires_grad(integers, true); },
                                {"must be floating-point or complex, got i64[2]"});
  const Tensor y = neg(leaf_of({1}, {1}));
  expect_error<InvalidArgument>([&] { set_requires_grad(y, false); }, {"test.neg", "detach()"});
  expect_error<InvalidArgument>([&] { (void)grad(y); }, {"test.neg", "gradients()"});
  expect_error<InvalidArgument>(
      [&] {
        set_grad(leaf_of({1}, {1}), tensor_of({2}, {1, 1}));
      },
      {"shape and dtype of f64[1]", "got f64[2]"});
}

TEST(Mode, NoGradRecordsNothing) {
  const Tensor x = leaf_of({1}, {1});
  {
    const NoGrad off;
    EXPECT_FALSE(requires_grad(neg(x)));
    const EnableGrad on;
    EXPECT_TRUE(requires_grad(neg(x)));
  }
  EXPECT_TRUE(requires_grad(neg(x)));
}

TEST(InPlace, GivesTheTensorANewHistory) {
  const Tensor x = leaf_of({1}, {3});
  const Tensor y = neg(x);
  tensor::call_out(kMul, y, {y, tensor_of({1}, {5})});
  tensor::call_out(kAdd, y, {y, x});
  backward(y);
  EXPECT_EQ(values_of(y), Values({-12}));
  EXPECT_EQ(values_of(grad(x)), Values({-4}));
}

TEST(InPlace, MakesAnUntrackedTensorTracked) {
  const Tensor x = leaf_of({1}, {3});
  const Tensor total = tensor_of({1}, {0});
  for (int i = 0; i < 3; ++i) tensor::call_out(kAdd, total, {total, x});
  backward(total);
  EXPECT_EQ(values_of(grad(x)), Values({3}));
}

TEST(InPlace, IsRefusedOnALeafUnlessUnderNoGrad) {
  const Tensor x = leaf_of({1}, {3});
  expect_error<InvalidArgument>([&] { tensor::call_out(kNeg, x, {x}); }, {"test.neg", "a leaf", "NoGrad"});
  EXPECT_EQ(values_of(x), Values({3}));
  const NoGrad off;
  tensor::call_out(kNeg, x, {x});
  EXPECT_EQ(values_of(x), Values({-3}));
}

TEST(InPlace, IsRefusedIntoATensorThatIsNoInput) {
  const Tensor x = leaf_of({1}, {3});
  const Tensor out = tensor_of({1}, {0});
  expect_error<InvalidArgument>([&] { tensor::call_out(kNeg, out, {x}); },
                                {"test.neg", "must be one of its inputs", "NoGrad"});
  const Tensor y = neg(x);
  expect_error<InvalidArgument>([&] { tensor::call_out(kNeg, y, {out}); }, {"must be one of its inputs"});
}

TEST(InPlace, IsRefusedWhereOthersWouldMissTheGradient) {
  const Tensor x = leaf_of({1, 2}, {3, 4});
  const Tensor whole = tensor_of({2, 2}, {0, 0, 0, 0});
  const Tensor row = whole.as_strided({1, 2}, {2, 1}, 0);
  expect_error<InvalidArgument>([&] { tensor::call_out(kAdd, row, {row, x}); }, {"share its memory", "clone"});
  const Tensor y = neg(x);
  const Tensor view = transpose(y);
  expect_error<InvalidArgument>([&] { tensor::call_out(kNeg, view, {view}); }, {"it is a view", "clone"});
  const Tensor constant = tensor_of({1, 2}, {1, 2});
  const Tensor product = mul(x, constant);
  expect_error<InvalidArgument>(
      [&] {
        tensor::call_out(kAdd, constant, {constant, product});
      },
      {"has saved it", "clone"});
}

TEST(InPlace, MakesViewsTakenBeforeUnusable) {
  const Tensor x = leaf_of({1, 2}, {3, 4});
  const Tensor y = neg(x);
  const Tensor view = transpose(y);
  tensor::call_out(kNeg, y, {y});
  expect_error<InvalidArgument>([&] { (void)neg(view); }, {"view of a result of test.neg", "create the view again"});
  backward(sum(neg(transpose(y))));
  EXPECT_EQ(values_of(grad(x)), Values({-1, -1}));
}

TEST(InPlace, ViewsOfALeafOutliveUpdatesUnderNoGrad) {
  const Tensor x = leaf_of({1, 2}, {3, 4});
  const Tensor view = transpose(x);
  {
    const NoGrad off;
    tensor::call_out(kNeg, x, {x});
  }
  backward(sum(neg(view)));
  EXPECT_EQ(values_of(grad(x)), Values({-1, -1}));
}

TEST(SavedInput, IsRefusedWhenItWasChangedInPlace) {
  const Tensor x = leaf_of({1}, {3});
  const Tensor y = exp(x);
  const memory::Label label("encoder");
  const Tensor z = mul(y, y);
  tensor::call_out(kNeg, y, {y});
  expect_error<InvalidArgument>([&] { backward(z); },
                                {"test.mul (label 'encoder')", "its input", "version 0", "version 1", "clone"});
  const Tensor e = exp(x);
  tensor::call_out(kNeg, e, {e});
  expect_error<InvalidArgument>([&] { backward(e); }, {"test.exp", "its result", "version 1"});
}

TEST(SavedInput, ChangedWeightsAreSeenToo) {
  const Tensor x = leaf_of({1}, {3});
  const Tensor y = mul(x, x);
  {
    const NoGrad off;
    tensor::call_out(kNeg, x, {x});
  }
  expect_error<InvalidArgument>([&] { backward(y); }, {"test.mul", "changed in place"});
}

TEST(SavedInput, MakesNoCircle) {
  const Tensor x = leaf_of({1}, {3});
  Tensor y = exp(x);
  tensor::detail::Ref<tensor::Storage> storage = y.state()->storage;
  y = {};
  EXPECT_EQ(storage->count(), 1U) << "a call that saves its own result";
  Tensor z = neg(x);
  storage = z.state()->storage;
  const Tensor product = mul(z, x);
  tensor::call_out(kAdd, z, {z, product});  // z depends on the product, which saved z
  const_cast<Tensor&>(product) = {};
  z = {};
  EXPECT_EQ(storage->count(), 1U);
}

TEST(Record, ChecksArgumentsAsWithoutIt) {
  expect_error<InvalidArgument>(
      [&] {
        (void)add(leaf_of({1}, {3}), tensor_of({2}, {1, 2}));
      },
      {"test.add: shapes differ"});
}

}  // namespace
}  // namespace tessera::autograd::testing
