// Products that add to the sum of a tensor's gradients where it is stored: the same values as two steps, no memory for
// the product, and nothing that anybody else holds or looks at changes.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <thread>

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/hooks.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/memory/allocator.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::autograd {
namespace {

using ops::testing::Array;
using ops::testing::Random;
using ops::testing::to_array;
using Loss = std::function<Tensor(const Tensor& weight, int micro_batch)>;

Tensor drawn(Random& random, const Shape& shape, DType dtype, bool is_strided = false) {
  return ops::testing::to_tensor(ops::testing::normal(random, shape).value, dtype, is_strided);
}

Tensor leaf(const Tensor& values) {
  set_requires_grad(values, true);
  return values;
}

// The gradient of each micro-batch by itself, then the sum: what accumulation is when nothing happens in place.
Array two_steps(const Tensor& weight, const Loss& loss, int micro_batches) {
  Tensor sum;
  for (int m = 0; m < micro_batches; ++m) {
    const Tensor one = gradients({loss(weight, m)}, {weight})[0];
    sum = sum ? ops::add(sum, one) : one;
  }
  return to_array(sum);
}

void expect_near(const Array& got, const Array& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.shape, want.shape) << what;
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    ASSERT_NEAR(got.values[i], want.values[i], tolerance * std::max(1.0, std::fabs(want.values[i]))) << what;
  }
}

// Three micro-batches; the gradient must stay where the first put it, or not.
void check(const std::string& what, const Tensor& weight, const Loss& loss, double tolerance, bool is_in_place = true) {
  const Array want = two_steps(weight, loss, 3);
  backward(loss(weight, 0));
  const std::byte* at = grad(weight).data();
  for (int m = 1; m < 3; ++m) backward(loss(weight, m));
  EXPECT_EQ(grad(weight).data() == at, is_in_place) << what;
  expect_near(to_array(grad(weight)), want, tolerance, what);
}

TEST(InPlaceSums, HaveTheValuesOfTwoSteps) {
  Random random(1);
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const bool is_strided : {false, true}) {
      // Depths up to 64 are one block of the library, which adds as two steps do. 4096 are several blocks; each one
      // rounds the sum.
      for (const std::int64_t depth : {7, 64, 4096}) {
        const double tolerance = depth > 64 ? (dtype == DType::kF32 ? 1e-4 : 1e-12) : 0;
        std::vector<Tensor> x, batched, y;
        for (int m = 0; m < 3; ++m) {
          x.push_back(drawn(random, {depth, 9}, dtype, is_strided));
          batched.push_back(drawn(random, {3, depth, 9}, dtype, is_strided));
          y.push_back(drawn(random, {depth, 5}, dtype, is_strided));
        }
        const auto drawn_leaf = [&](const Shape& shape) { return leaf(drawn(random, shape, dtype, is_strided)); };
        const auto at = [](int m) { return static_cast<std::size_t>(m); };
        const std::string what =
            std::string(to_string(dtype)) + (is_strided ? " strided " : " dense ") + std::to_string(depth);
        check(
            "linear " + what, drawn_leaf({5, 9}),
            [&](const Tensor& w, int m) { return ops::sum(ops::mul(ops::linear(x[at(m)], w), y[at(m)])); }, tolerance);
        check(
            "mm " + what, drawn_leaf({9, 5}),
            [&](const Tensor& w, int m) { return ops::sum(ops::mul(ops::mm(x[at(m)], w), y[at(m)])); }, tolerance);
        check(
            "bmm " + what, drawn_leaf({3, 9, 5}),
            [&](const Tensor& w, int m) { return ops::sum(ops::mul(ops::bmm(batched[at(m)], w), y[at(m)])); },
            tolerance);
        check(
            "contract " + what, drawn_leaf({9, 3, 5}),
            [&](const Tensor& w, int m) {
              return ops::sum(ops::mul(ops::contract(batched[at(m)], w, "abk,kaj->abj"), y[at(m)]));
            },
            tolerance);
      }
    }
  }
}

TEST(InPlaceSums, AddTheGradientsOfTheLossHead) {
  Random random(2);
  std::vector<Tensor> x, targets;
  for (int m = 0; m < 3; ++m) {
    x.push_back(leaf(drawn(random, {12, 8}, DType::kF32)));
    targets.push_back(ops::testing::to_tensor(ops::testing::integers(random, {12}, 0, 20).value, DType::kI64));
  }
  const Loss loss = [&](const Tensor& w, int m) {
    const auto at = static_cast<std::size_t>(m);
    return ops::mul(ops::linear_cross_entropy(x[at], w, targets[at]), 0.3);
  };
  check("the loss head", leaf(drawn(random, {20, 8}, DType::kF32)), loss, 1e-6);
}

TEST(InPlaceSums, OfHalfTypesAreTwoSteps) {
  Random random(3);
  const Tensor x = drawn(random, {64, 9}, DType::kBF16);
  const Loss loss = [&](const Tensor& w, int) { return ops::sum(ops::linear(x, w)); };
  check("bf16", leaf(drawn(random, {5, 9}, DType::kBF16)), loss, 0, false);
}

// A weight used twice, and an input of several products: the second adds to the gradient of the first.
TEST(InPlaceSums, AddWhatAWeightUsedTwiceGives) {
  Random random(4);
  const Tensor x = leaf(drawn(random, {6, 9}, DType::kF32));
  const Tensor w = leaf(drawn(random, {9, 9}, DType::kF32));
  const Tensor v = leaf(drawn(random, {9, 9}, DType::kF32));
  const auto loss = [&](const Tensor& in) { return ops::add(ops::sum(ops::linear(ops::linear(in, w), w)), 0); };
  const Tensor hidden = ops::mul(x, x);
  backward(ops::add(loss(hidden), ops::sum(ops::linear(hidden, v))));
  const Tensor y = leaf(ops::mul(x, x).detach());
  Tensor want_w, want_y;
  {
    const auto parts = gradients({loss(y)}, {w, y});
    want_w = parts[0];
    want_y = ops::add(gradients({ops::sum(ops::linear(y, v))}, {y})[0], parts[1]);
  }
  expect_near(to_array(grad(w)), to_array(want_w), 1e-5, "the weight");
  expect_near(to_array(grad(x)), to_array(ops::mul(ops::mul(want_y, x.detach()), 2)), 1e-5, "the input");
}

TEST(InPlaceSums, TakeNoMemoryForTheProduct) {
  Random random(5);
  constexpr std::int64_t kSize = 512;
  constexpr std::uint64_t kWeight = kSize * kSize * sizeof(float);
  const Tensor x = drawn(random, {4, kSize}, DType::kF32);
  const Tensor w = leaf(drawn(random, {kSize, kSize}, DType::kF32));
  const memory::Allocator allocator = memory::Allocator::of(w.device());
  const auto more = [&] {
    const Tensor loss = ops::sum(ops::linear(x, w));
    w.device().synchronize();
    allocator.reset_peaks();
    const std::uint64_t before = allocator.statistics().peak_live_nbytes;
    backward(loss);
    w.device().synchronize();
    return allocator.statistics().peak_live_nbytes - before;
  };
  EXPECT_GE(more(), kWeight) << "the gradient itself";
  EXPECT_LT(more(), kWeight / 4) << "rows of activations";
  const Tensor held = grad(w);
  EXPECT_GE(more(), 2 * kWeight) << "the product and the sum, since the gradient before is held";
}

TEST(InPlaceSums, LeaveAGradientThatIsHeldAlone) {
  Random random(6);
  const Tensor x = drawn(random, {4, 3}, DType::kF32);
  const Tensor w = leaf(drawn(random, {2, 3}, DType::kF32));
  const auto run = [&] { backward(ops::sum(ops::linear(x, w))); };
  run();
  const Array once = to_array(grad(w));
  const auto twice = [&](const Array& now) {
    for (std::size_t i = 0; i < once.values.size(); ++i) EXPECT_EQ(now.values[i], 2 * once.values[i]);
  };
  {
    const Tensor held = grad(w);
    run();
    EXPECT_EQ(to_array(held).values, once.values) << "by a handle";
    twice(to_array(grad(w)));
  }
  set_grad(w, {});
  run();
  const Tensor view = grad(w).detach();
  run();
  EXPECT_EQ(to_array(view).values, once.values) << "by its memory";
  twice(to_array(grad(w)));
}

TEST(InPlaceSums, ShowHooksTheGradientOfTheirRun) {
  Random random(7);
  const Tensor x = drawn(random, {4, 3}, DType::kF32);
  const Tensor w = leaf(drawn(random, {2, 3}, DType::kF32));
  const auto run = [&] { backward(ops::sum(ops::linear(x, w))); };
  int ready = 0;
  HookHandle at_ready = on_gradient_ready(w, [&](const Tensor& gradient) {
    ++ready;
    EXPECT_TRUE(gradient.is_same(grad(w)));
  });
  run();
  const Array once = to_array(grad(w));
  run();
  EXPECT_EQ(ready, 2);
  std::vector<double> seen;
  HookHandle looking = on_gradient(w, [&](const Tensor& gradient) {
    seen = to_array(gradient).values;
    return Tensor();
  });
  run();
  EXPECT_EQ(seen, once.values) << "not the sum";
  EXPECT_EQ(ready, 3);
  looking.remove();
  at_ready.remove();
}

TEST(InPlaceSums, AreNotForGradientsThatAreDifferentiatedOrChosen) {
  Random random(8);
  const Tensor x = leaf(drawn(random, {4, 3}, DType::kF64));
  const Tensor w = leaf(drawn(random, {2, 3}, DType::kF64));
  const auto loss = [&] { return ops::sum(ops::square(ops::linear(x, w))); };
  backward(loss());
  const Array before = to_array(grad(w));
  EXPECT_EQ(gradients({loss()}, {w}).size(), 1U);
  EXPECT_EQ(to_array(grad(w)).values, before.values);
  backward(loss(), {}, {.create_graph = true});
  const Tensor sum = grad(w);
  EXPECT_TRUE(sum.is_tracked());
  backward(ops::sum(sum));  // a second derivative goes through the sum
  EXPECT_TRUE(grad(x));
}

TEST(InPlaceSums, AddUpFromSeveralThreads) {
  Random random(9);
  constexpr int kRuns = 40;
  const Tensor x = drawn(random, {4, 64}, DType::kF64);
  const Tensor w = leaf(drawn(random, {64, 64}, DType::kF64));
  const Array once = to_array(gradients({ops::sum(ops::linear(x, w))}, {w})[0]);
  const auto runs = [&] {
    for (int i = 0; i < kRuns; ++i) backward(ops::sum(ops::linear(x, w)));
  };
  std::thread other(runs);
  runs();
  other.join();
  const Array all = to_array(grad(w));
  for (std::size_t i = 0; i < once.values.size(); ++i) {
    ASSERT_NEAR(all.values[i], 2 * kRuns * once.values[i], 1e-9) << "no run is lost";
  }
}

TEST(InPlaceSums, ProductsOfHalvesMayBeAddedToF32) {
  Random random(11);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const Tensor a = drawn(random, {40, 3}, dtype);
    const Tensor b = drawn(random, {40, 5}, dtype);
    const Tensor sum = drawn(random, {3, 5}, DType::kF32);
    Array want = to_array(sum);
    const Array left = to_array(a);
    const Array right = to_array(b);
    for (std::size_t i = 0; i < 15; ++i) {
      for (std::size_t k = 0; k < 40; ++k) want.values[i] += left.values[k * 3 + i / 5] * right.values[k * 5 + i % 5];
    }
    ops::contract_add_(sum, a, b, "ki,kj->ij");
    const Array got = to_array(sum);
    for (std::size_t i = 0; i < 15; ++i) EXPECT_NEAR(got.values[i], want.values[i], 1e-5) << to_string(dtype);
  }
}

TEST(InPlaceSums, NeedATensorToAddTo) {
  Random random(10);
  const Tensor a = drawn(random, {4, 3}, DType::kF32);
  const tensor::Operator op = tensor::find_op("contract_add");
  expect_error<InvalidArgument>(
      [&] {
        tensor::call(op, {a, a}, ops::ContractAttributes{"ki,kj->ij"});
      },
      {"contract_add", "requires an output tensor to add to"});
  const Tensor sum = drawn(random, {3, 3}, DType::kF32);
  expect_error<InvalidArgument>([&] { ops::contract_add_(sum, leaf(a), a, "ki,kj->ij"); },
                                {"contract_add", "out of a recorded call must be one of its inputs"});
}

}  // namespace
}  // namespace tessera::autograd
