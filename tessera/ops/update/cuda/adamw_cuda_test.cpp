// The fused AdamW of a GPU: hundreds of tensors in one launch, with numbers read when it runs.
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

TEST_F(AdamWOnCuda, ThreeHundredTensorsAreOneLaunch) {
  const State host = make(300, DType::kF32);
  const State gpu = there(host);
  gpu_.synchronize();
  const memory::CapturedGraph graph = captured([&] { gpu.take_step(); });
  EXPECT_EQ(graph.graph().nodes().size(), 1U);
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

}  // namespace
}  // namespace tessera::ops
