// Updates and norms of lists on a GPU: hundreds of tensors in one launch, with numbers read when it runs.
#include <cmath>
#include <limits>

#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/on_cuda.h"
#include "tessera/ops/update/update.h"

namespace tessera::ops {
namespace {

using testing::Array;
using testing::expect_near;
using testing::to_tensor;
using Tensors = std::vector<Tensor>;

// Everything that a step reads and changes.
struct State {
  Tensors params, grads, first, second;
  Tensor step, rate, clip, skip;

  void take_step() const {
    adamw_(params, grads, first, second, step, {.learning_rate = rate, .clip_factor = clip, .skip = skip},
           {.weight_decay = 0.1});
  }
};

class AdamWOnCuda : public testing::OnCuda {
 protected:
  static Tensor number(double value, DType dtype) { return to_tensor(Array(Shape({}), value), dtype); }

  static State make(int count, DType dtype) {
    State state;
    for (int i = 0; i < count; ++i) {
      const Shape shape({1 + i % 7, 1 + i * 37 % 1500});
      state.params.push_back(randn(shape, {.dtype = dtype}));
      state.grads.push_back(randn(shape, {.dtype = dtype}));
      state.first.push_back(randn(shape, {.dtype = dtype == DType::kF64 ? dtype : DType::kF32}));
      state.second.push_back(rand(shape, {.dtype = dtype == DType::kF64 ? dtype : DType::kF32}));
    }
    state.step = number(4, DType::kI64);
    state.rate = number(0.01, DType::kF32);
    state.clip = number(0.5, DType::kF64);
    state.skip = number(0, DType::kBool);
    return state;
  }

  [[nodiscard]] State there(const State& state) const {
    const auto all = [&](const Tensors& list) {
      Tensors moved;
      for (const Tensor& x : list) moved.push_back(OnCuda::there(x));
      return moved;
    };
    return {all(state.params),         all(state.grads),          all(state.first),          all(state.second),
            OnCuda::there(state.step), OnCuda::there(state.rate), OnCuda::there(state.clip), OnCuda::there(state.skip)};
  }

  static void expect_same(const State& got, const State& want, double tolerance) {
    for (std::size_t i = 0; i < want.params.size(); ++i) {
      SCOPED_TRACE(i);
      expect_near(here(got.params[i]), want.params[i], tolerance);
      expect_near(here(got.first[i]), want.first[i], 1e-6);
      expect_near(here(got.second[i]), want.second[i], 1e-6);
    }
    expect_near(here(got.step), want.step, 0);
  }
};

TEST_F(AdamWOnCuda, StepsAsTheHostDoes) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    const State host = make(40, dtype);
    const State gpu = there(host);
    for (int i = 0; i < 3; ++i) {
      host.take_step();
      gpu.take_step();
    }
    expect_same(gpu, host, dtype == DType::kBF16 ? 1.0 / 64 : 1e-5);
  }
}

// The first launch computes the powers of the step.
TEST_F(AdamWOnCuda, ThreeHundredTensorsAreTwoLaunches) {
  const State host = make(300, DType::kF32);
  const State gpu = there(host);
  gpu_.synchronize();
  const memory::CapturedGraph graph = captured([&] { gpu.take_step(); });
  EXPECT_EQ(graph.graph().nodes().size(), 2U);
  for (int i = 0; i < 2; ++i) {
    graph.replay(stream());
    host.take_step();
  }
  expect_same(gpu, host, 1e-5);
}

TEST_F(AdamWOnCuda, AReplayReadsItsNumbersAnew) {
  const State host = make(3, DType::kF32);
  const State gpu = there(host);
  gpu_.synchronize();
  const memory::CapturedGraph graph = captured([&] { gpu.take_step(); });
  for (const bool is_skipped : {false, true, false}) {
    for (const State* state : {&host, &gpu}) {
      copy_(state->rate, number(is_skipped ? 5 : 0.25, DType::kF32));
      copy_(state->skip, number(is_skipped ? 1 : 0, DType::kBool));
    }
    host.take_step();
    graph.replay(stream());
    expect_same(gpu, host, 1e-5);
  }
}

TEST_F(AdamWOnCuda, ManyTensorsAndOddOnesCountOneStep) {
  State host = make(900, DType::kF32);
  State gpu = there(host);
  // One that is not dense, and one that begins where no vector does.
  host.params[5] = transpose(contiguous(transpose(host.params[5], 0, 1)), 0, 1);
  gpu.params[5] = transpose(OnCuda::there(contiguous(transpose(host.params[5], 0, 1))), 0, 1);
  const Tensor padded = randn({7 * 64 + 1});
  host.params[6] = padded.as_strided(Shape({7, 64}), Strides({64, 1}), 1);
  gpu.params[6] = OnCuda::there(padded).as_strided(Shape({7, 64}), Strides({64, 1}), 1);
  for (State* state : {&host, &gpu}) {
    const device::Device on = state->params[6].device();
    state->grads[6] = to(to_tensor(Array(Shape({7, 64}), 0.5), DType::kF32), on);
    state->first[6] = to(to_tensor(Array(Shape({7, 64}), 0.25), DType::kF32), on);
    state->second[6] = to(to_tensor(Array(Shape({7, 64}), 0.125), DType::kF32), on);
    state->take_step();
    state->take_step();
  }
  expect_same(gpu, host, 1e-5);
}

// Lists for the simpler updates: params, grads and states of one shape each.
class ListsOnCuda : public testing::OnCuda {
 protected:
  enum class Layout { kDense, kUnaligned, kStrided };

  // Memory of a tensor, not initialized.
  static Tensor tensor_of(const Shape& shape, DType dtype, Layout layout, const device::Device& device) {
    const std::int64_t rows = shape[0];
    const std::int64_t columns = shape[1];
    const bool is_strided = layout == Layout::kStrided;
    const Tensor memory = empty({rows * (columns + 1) + 1}, {.dtype = dtype, .device = device});
    return memory.as_strided(shape, Strides({is_strided ? columns + 1 : columns, 1}),
                             layout == Layout::kUnaligned ? 1 : 0);
  }
  // The same values on the host and on the GPU, there in every layout.
  [[nodiscard]] std::pair<Tensors, Tensors> lists(DType dtype, int count) const {
    Tensors host;
    Tensors gpu;
    for (int i = 0; i < count; ++i) {
      const Shape shape({1 + i % 5, 1 + i * 37 % 3000});
      const Layout layout = i % 50 == 48 ? Layout::kUnaligned : i % 50 == 49 ? Layout::kStrided : Layout::kDense;
      host.push_back(randn(shape, {.dtype = dtype}));
      gpu.push_back(tensor_of(shape, dtype, layout, gpu_));
      copy_(gpu.back(), there(host.back()));
    }
    return {host, gpu};
  }
  static void expect_lists(const Tensors& got, const Tensors& want, double tolerance) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      SCOPED_TRACE(i);
      expect_near(here(got[i]), want[i], tolerance);
      if (HasFatalFailure()) return;
    }
  }
  struct Pair {
    DType param, grad;
    double tolerance;
  };
  static constexpr Pair kPairs[] = {{DType::kF32, DType::kF32, 1e-5},
                                    {DType::kF32, DType::kBF16, 1e-5},
                                    {DType::kF64, DType::kF64, 1e-12},
                                    {DType::kBF16, DType::kBF16, 1.0 / 64},
                                    {DType::kF16, DType::kF32, 1.0 / 256}};
};

Tensor number_of(double value, DType dtype) { return to_tensor(Array(Shape({}), value), dtype); }

TEST_F(ListsOnCuda, AddAndMultiplyAsTheHostDoes) {
  for (const Pair& of : kPairs) {
    const auto [a, gpu_a] = lists(of.param, 450);
    const auto [b, gpu_b] = lists(of.grad, 450);
    expect_lists(foreach_add(gpu_a, gpu_b, -0.5), foreach_add(a, b, -0.5), of.tolerance);
    foreach_add_(gpu_a, gpu_b, 3);
    foreach_add_(a, b, 3);
    expect_lists(gpu_a, a, of.tolerance);
    const Tensor factor = number_of(0.25, DType::kF32);
    expect_lists(foreach_mul(gpu_b, 1.5, there(factor)), foreach_mul(b, 1.5, factor), of.tolerance);
    foreach_mul_(gpu_b, 0.5);
    foreach_mul_(b, 0.5);
    expect_lists(gpu_b, b, of.tolerance);
    if (HasFatalFailure()) return;
  }
}

TEST_F(ListsOnCuda, OptimizersStepAsTheHostDoes) {
  for (const Pair& of : kPairs) {
    for (const bool is_skipped : {false, true}) {
      const auto [params, gpu_params] = lists(of.param, 120);
      const auto [grads, gpu_grads] = lists(of.grad, 120);
      const auto [states, gpu_states] = lists(of.param, 120);
      const StepScalars scalars = {.learning_rate = number_of(0.01, DType::kF32),
                                   .clip_factor = number_of(0.5, DType::kF64),
                                   .skip = number_of(is_skipped ? 1 : 0, DType::kBool)};
      const StepScalars gpu_scalars = {.learning_rate = there(scalars.learning_rate),
                                       .clip_factor = there(scalars.clip_factor),
                                       .skip = there(scalars.skip)};
      const auto step = [](const Tensors& p, const Tensors& g, const Tensors& s, const StepScalars& with) {
        sgd_(p, g, {}, with, {.weight_decay = 0.1});
        sgd_(p, g, s, with, {.momentum = 0.9, .weight_decay = 0.1, .is_nesterov = true});
        sgd_(p, g, s, with, {.momentum = 0.9});
        lion_(p, g, s, with, {.weight_decay = 0.1});
      };
      step(params, grads, states, scalars);
      step(gpu_params, gpu_grads, gpu_states, gpu_scalars);
      expect_lists(gpu_params, params, 4 * of.tolerance);
      expect_lists(gpu_states, states, 4 * of.tolerance);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(ListsOnCuda, NormsOfEachAndOfAll) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    auto [list, gpu_list] = lists(dtype, 850);
    list.push_back(randn({3, 1000000}, {.dtype = dtype}));  // many chunks
    gpu_list.push_back(there(list.back()));
    list.push_back(zeros({0, 4}, {.dtype = dtype}));
    gpu_list.push_back(there(list.back()));
    for (const double p : {2.0, 1.0, 3.0, std::numeric_limits<double>::infinity()}) {
      expect_lists(foreach_norm(gpu_list, p), foreach_norm(list, p), 1e-5);
      for (const double most : {0.5, 1e9}) {
        const GradNorm want = grad_norm(list, most, p);
        const GradNorm got = grad_norm(gpu_list, most, p);
        const double size = testing::to_array(want.norm).values[0];
        expect_near(here(got.norm), want.norm, 1e-5 * size);
        expect_near(here(got.factor), want.factor, 1e-5);
      }
      if (HasFatalFailure()) return;
    }
    fill_(select(gpu_list[3], 0, 0), std::nan(""));
    EXPECT_TRUE(std::isnan(testing::to_array(here(grad_norm(gpu_list, 1).factor)).values[0]));
  }
}

TEST_F(ListsOnCuda, ResultsRepeat) {
  const auto [list, gpu_list] = lists(DType::kF32, 300);
  const Tensors& grads = gpu_list;
  expect_repeats([&] {
    const GradNorm norm = grad_norm(grads, 1);
    Tensors all = foreach_norm(grads, 2);
    all.push_back(norm.norm);
    all.push_back(norm.factor);
    for (const Tensor& x : foreach_mul(grads, 1, norm.factor)) all.push_back(x);
    return all;
  });
}

}  // namespace
}  // namespace tessera::ops
