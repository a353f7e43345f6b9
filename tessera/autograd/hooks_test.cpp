// Hooks, custom functions and checkpoints.
#include "tessera/autograd/hooks.h"

#include <gtest/gtest.h>

#include "tessera/autograd/checkpoint.h"
#include "tessera/autograd/function.h"
#include "tessera/autograd/testing/test_ops.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/create/random.h"

namespace tessera::autograd::testing {
namespace {

using Values = std::vector<double>;
using Tensors = std::vector<Tensor>;

TEST(GradientHook, SeesTheWholeGradientAndMayReplaceIt) {
  const Tensor x = leaf_of({1}, {3});
  const Tensor y = mul(x, x);
  std::vector<double> seen;
  on_gradient(y, [&](const Tensor& gradient) {
    seen.push_back(values_of(gradient)[0]);
    return mul(gradient, tensor_of({1}, {10}));
  });
  on_gradient(x, [&](const Tensor& gradient) {
    seen.push_back(values_of(gradient)[0]);
    return Tensor();
  });
  backward(add(y, y));
  EXPECT_EQ(seen, Values({2, 120}));
  EXPECT_EQ(values_of(grad(x)), Values({120}));
}

TEST(GradientHook, CanBeRemoved) {
  const Tensor x = leaf_of({1}, {3});
  int calls = 0;
  HookHandle hook = on_gradient(x, [&](const Tensor&) { return ++calls, Tensor(); });
  HookHandle ready = on_gradient_ready(x, [&](const Tensor&) { ++calls; });
  backward(neg(x));
  EXPECT_EQ(calls, 2);
  hook.remove();
  ready.remove();
  ready.remove();
  backward(neg(x));
  EXPECT_EQ(calls, 2);
}

TEST(GradientHook, MustKeepTheShape) {
  const Tensor x = leaf_of({2}, {3, 4});
  on_gradient(x, [](const Tensor& gradient) { return sum(gradient); });
  expect_error<InvalidArgument>([&] { backward(sum(x)); }, {"hook", "shape and dtype of f64[2]", "got f64[]"});
  expect_error<InvalidArgument>([&] { on_gradient(tensor_of({1}, {1}), nullptr); }, {"tensor must require a gradient"});
}

TEST(SavedHooks, OfATensorAreForThatTensorAlone) {
  const Tensor x = leaf_of({1}, {3});
  const Tensor y = mul(x, tensor_of({1}, {2}));
  int packed = 0;
  int unpacked = 0;
  set_saved_hooks(y, {.pack = [&](const Tensor&) -> std::shared_ptr<void> { return ++packed, nullptr; },
                      .unpack = [&](const std::shared_ptr<void>&) { return ++unpacked, tensor_of({1}, {6}); }});
  const Tensor z = mul(mul(y, y), x);
  EXPECT_EQ(packed, 2);
  backward(z);
  EXPECT_EQ(unpacked, 2);
  EXPECT_EQ(values_of(grad(x)), Values({4 * 3 * 9}));
  expect_error<InvalidArgument>([] { set_saved_hooks(tensor_of({1}, {1}), {}); }, {"tensor must require a gradient"});
}

TEST(ReadyHook, IsToldAsSoonAsTheLastUseOfALeafIsDone) {
  const Tensor a = leaf_of({1}, {2});
  const Tensor b = leaf_of({1}, {3});
  std::vector<std::string> order;
  on_gradient_ready(a, [&](const Tensor& g) { order.push_back("a " + std::to_string(int(values_of(g)[0]))); });
  on_gradient_ready(b, [&](const Tensor& g) { order.push_back("b " + std::to_string(int(values_of(g)[0]))); });
  const Tensor early = mul(a, a);
  on_gradient(early, [&](const Tensor&) { return order.emplace_back("early"), Tensor(); });
  const Tensor late = mul(mul(early, b), b);
  on_gradient(late, [&](const Tensor&) {
    at_end_of_run([&] { order.emplace_back("end"); });
    return order.emplace_back("late"), Tensor();
  });
  backward(late);
  EXPECT_EQ(order, std::vector<std::string>({"late", "b 24", "early", "a 36", "end"}));
  (void)gradients({neg(a)}, {a});
  EXPECT_EQ(order.size(), 5U) << "nothing was accumulated";
  expect_error<InvalidArgument>([] { at_end_of_run([] {}); }, {"no backward run is active"});
}

struct PackLog {
  int packed = 0;
  int unpacked = 0;
  [[nodiscard]] SavedHooks hooks() {
    return {.pack =
                [this](const Tensor& tensor) {
                  ++packed;
                  return std::make_shared<Values>(values_of(tensor));
                },
            .unpack =
                [this](const std::shared_ptr<void>& value) {
                  ++unpacked;
                  const auto& values = *static_cast<const Values*>(value.get());
                  return tensor_of({static_cast<std::int64_t>(values.size())}, values);
                }};
  }
};

TEST(SavedHooks, PackWhatIsSavedInTheirScope) {
  const Tensor x = leaf_of({1}, {3});
  PackLog outer;
  PackLog inner;
  Tensor y;
  {
    const SavedHooksScope scope(outer.hooks());
    y = mul(x, x);
    const SavedHooksScope nested(inner.hooks());
    y = exp(y);
  }
  y = mul(y, y);
  EXPECT_EQ(outer.packed, 2);
  EXPECT_EQ(inner.packed, 1);
  const Tensor first = gradients({y}, {x}, {}, {.create_graph = true})[0];
  EXPECT_EQ(outer.unpacked, 2);
  EXPECT_EQ(inner.unpacked, 1);
  const double e = std::exp(18.0);  // y = e^(2 x^2)
  EXPECT_NEAR(values_of(first)[0] / e, 12, 1e-12);
  EXPECT_NEAR(values_of(gradients({first}, {x})[0])[0] / e, 4 + 144, 1e-11) << "what is unpacked has its history";
}

TEST(SavedHooks, MustGiveBackWhatTheyTook) {
  const Tensor x = leaf_of({1}, {3});
  Tensor y;
  {
    const SavedHooksScope scope({.pack = [](const Tensor&) { return nullptr; },
                                 .unpack =
                                     [](const std::shared_ptr<void>&) {
                                       return tensor_of({2}, {1, 2});
                                     }});
    y = exp(x);
  }
  expect_error<InvalidArgument>([&] { backward(y); }, {"test.exp", "saved tensor of f64[1], got f64[2]"});
}

// Returns a * b^2, with an intentionally wrong gradient (times 10), so that its use is visible.
Tensor odd_product(const Tensor& a, const Tensor& b) {
  return apply_function(
      "odd_product",
      [](FunctionCall& call, const Tensors& in) -> Tensors {
        const Tensor square = mul(in[1], in[1]);
        call.save({in[0], in[1], square});
        return {mul(in[0], square)};
      },
      [](FunctionCall& call, const Tensors& grads) -> Tensors {
        const Tensor ten = tensor_of({1}, {10});
        Tensors out(2);
        if (call.needs(0)) out[0] = mul(ten, mul(grads[0], call.saved(2)));
        if (call.needs(1)) out[1] = mul(ten, mul(grads[0], mul(call.saved(0), add(call.saved(1), call.saved(1)))));
        return out;
      },
      {a, b})[0];
}

TEST(Function, RunsItsOwnGradient) {
  const Tensor a = leaf_of({1}, {2});
  const Tensor b = leaf_of({1}, {3});
  backward(odd_product(a, b));
  EXPECT_EQ(values_of(grad(a)), Values({90}));
  EXPECT_EQ(values_of(grad(b)), Values({120}));
  EXPECT_FALSE(requires_grad(odd_product(a.detach(), b.detach())));
  const Tensor y = odd_product(a, b.detach());
  const Tensor first = gradients({y}, {a})[0];
  EXPECT_EQ(values_of(first), Values({90}));
}

TEST(Function, CanBeDifferentiatedTwice) {
  const Tensor a = leaf_of({1}, {2});
  const Tensor b = leaf_of({1}, {3});
  const Tensor first = gradients({odd_product(a, b)}, {b}, {}, {.create_graph = true})[0];  // 20ab
  EXPECT_EQ(values_of(gradients({first}, {b}, {}, {.retain_graph = true})[0]), Values({40}));
  EXPECT_EQ(values_of(gradients({first}, {a})[0]), Values({60}));
}

TEST(Function, IsHeldToItsWord) {
  const Tensor x = leaf_of({1}, {2});
  const auto forward = [](FunctionCall& call, const Tensors& in) -> Tensors {
    call.save({in[0]});
    return {in[0]};
  };
  const Tensor y = apply_function("odd", forward, [](FunctionCall&, const Tensors&) { return Tensors(2); }, {x})[0];
  EXPECT_FALSE(y.is_same(x)) << "a returned input is a result with its own history";
  expect_error<InvalidArgument>([&] { backward(y); }, {"odd", "one gradient per input (1), got 2"});
  const Tensor z =
      apply_function("odd", forward, [](FunctionCall& call, const Tensors&) { return Tensors{call.saved(1)}; }, {x})[0];
  expect_error<InvalidArgument>([&] { backward(z); }, {"odd", "saved tensor must be in [0, 1), got 1"});
  const Tensor w = neg(x);
  const Tensor v =
      apply_function("odd", forward, [](FunctionCall& call, const Tensors&) { return Tensors{call.saved(0)}; }, {w})[0];
  tensor::call_out(kNeg, w, {w});
  expect_error<InvalidArgument>([&] { backward(v); }, {"odd", "changed in place"});
}

TEST(Checkpoint, SavesOnlyItsInputsAndGivesTheSameGradients) {
  const Tensor w = leaf_of({1}, {0.5});
  int runs = 0;
  const CheckpointBody body = [&](const Tensors& in) -> Tensors {
    ++runs;
    return {exp(mul(exp(mul(in[0], w)), w))};
  };
  const Tensor x = leaf_of({1}, {3});
  backward(body({x})[0]);
  const Values want_x = values_of(grad(x));
  const Values want_w = values_of(grad(w));
  set_grad(x, {});
  set_grad(w, {});
  runs = 0;
  PackLog log;
  Tensor y;
  {
    const SavedHooksScope counting(log.hooks());
    y = checkpoint(body, {x})[0];
  }
  EXPECT_EQ(log.packed, 1) << "the input alone";
  backward(y);
  EXPECT_EQ(runs, 2) << "once forward, once again";
  EXPECT_EQ(values_of(grad(x)), want_x);
  EXPECT_EQ(values_of(grad(w)), want_w);
}

TEST(Checkpoint, Nests) {
  const Tensor w = leaf_of({1}, {0.5});
  int inner_runs = 0;
  const CheckpointBody inner = [&](const Tensors& in) -> Tensors {
    ++inner_runs;
    return {exp(mul(in[0], w))};
  };
  const CheckpointBody plain = [&](const Tensors& in) -> Tensors { return {exp(inner({exp(in[0])})[0])}; };
  const CheckpointBody outer = [&](const Tensors& in) -> Tensors { return {exp(checkpoint(inner, {exp(in[0])})[0])}; };
  const Tensor x = leaf_of({1}, {0.25});
  const Tensor want = gradients({plain({x})[0]}, {w})[0];
  const Tensor want_x = gradients({plain({x})[0]}, {x})[0];
  inner_runs = 0;
  backward(checkpoint(outer, {x})[0]);
  EXPECT_EQ(inner_runs, 3) << "forward, again in the outer one, again in the inner one";
  EXPECT_EQ(values_of(grad(w)), values_of(want));
  EXPECT_EQ(values_of(grad(x)), values_of(want_x));
}

TEST(Checkpoint, WorksForChosenInputsSecondDerivativesAndRetainedGraphs) {
  const Tensor x = leaf_of({1}, {2});
  const CheckpointBody cube = [](const Tensors& in) -> Tensors { return {mul(mul(in[0], in[0]), in[0])}; };
  const Tensor y = checkpoint(cube, {x})[0];
  const Tensor first = gradients({y}, {x}, {}, {.create_graph = true})[0];
  EXPECT_EQ(values_of(first), Values({12}));
  EXPECT_EQ(values_of(gradients({first}, {x})[0]), Values({12}));
  const Tensor z = checkpoint(cube, {x})[0];
  backward(z, {}, {.retain_graph = true});
  backward(z);
  EXPECT_EQ(values_of(grad(x)), Values({24}));
}

TEST(Checkpoint, SeesWhenItsInputChangedOrItsBodyDiffers) {
  const Tensor x = leaf_of({1}, {2});
  const Tensor y = neg(x);
  const Tensor z = checkpoint([](const Tensors& in) -> Tensors { return {exp(in[0])}; }, {y})[0];
  tensor::call_out(kNeg, y, {y});
  expect_error<InvalidArgument>([&] { backward(z); }, {"checkpoint", "changed in place"});
  int runs = 0;
  const Tensor odd =
      checkpoint([&](const Tensors& in) -> Tensors { return {++runs == 1 ? exp(in[0]) : exp(exp(in[0]))}; }, {x})[0];
  expect_error<InvalidArgument>([&] { backward(odd); }, {"checkpoint", "2 tensors", "instead of 1"});
}

TEST(Checkpoint, DrawsTheSameRandomNumbersAgain) {
  std::vector<double> drawn;
  const Tensor x = leaf_of({1}, {2});
  const Tensor y = checkpoint(
      [&](const Tensors& in) -> Tensors {
        const Tensor noise = ops::rand({1}, {.dtype = DType::kF64});
        drawn.push_back(values_of(noise)[0]);
        return {exp(mul(in[0], noise))};
      },
      {x})[0];
  (void)ops::rand({1}, {.dtype = DType::kF64});
  const ops::GeneratorState before = ops::generator_state();
  backward(y);
  ASSERT_EQ(drawn.size(), 2U);
  EXPECT_EQ(drawn[0], drawn[1]);
  EXPECT_DOUBLE_EQ(values_of(grad(x))[0], drawn[0] * std::exp(2 * drawn[0]));
  EXPECT_EQ(ops::generator_state(), before) << "what comes after goes on as if nothing had been drawn";
}

}  // namespace
}  // namespace tessera::autograd::testing
