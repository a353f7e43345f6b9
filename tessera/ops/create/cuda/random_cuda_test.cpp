// Tests that random tensors on a GPU have the same bits as on the host.
#include "tessera/ops/create/generator.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/testing/on_cuda.h"

namespace tessera::ops {
namespace {

using testing::expect_same_bits;

class RandomOnCuda : public testing::OnCuda {};

// Compares the numbers that host and GPU draw for the same call.
template <class F>
void expect_host_bits(const device::Device& gpu, const F& draw) {
  const GeneratorState state = next_call();
  set_generator_state(state);
  const Tensor want = draw(device::Device::get("host"));
  set_generator_state(state);
  const Tensor got = to(draw(gpu), device::Device::get("host"));
  got.device().synchronize();
  expect_same_bits(got, contiguous(want));
}

TEST_F(RandomOnCuda, DrawsWhatTheHostDraws) {
  manual_seed(3);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64}) {
    for (const std::int64_t n : {1, 2, 3, 4, 5, 1023, 1'000'003}) {
      SCOPED_TRACE(n);
      expect_host_bits(gpu_, [&](const device::Device& on) { return randn({n}, {dtype, on}); });
      expect_host_bits(gpu_, [&](const device::Device& on) { return rand({n}, {dtype, on}); });
      expect_host_bits(gpu_, [&](const device::Device& on) { return bernoulli({n}, 0.3, {dtype, on}); });
    }
  }
  expect_host_bits(gpu_, [&](const device::Device& on) { return randn({}, {DType::kF32, on}); });
  expect_host_bits(gpu_, [&](const device::Device& on) { return randn({3, 0}, {DType::kF32, on}); });
}

TEST_F(RandomOnCuda, FillsInPlaceWhereverElementsLie) {
  manual_seed(4);
  const auto filled = [&](const device::Device& on, const auto& fill) {
    const Tensor memory = empty({7, 33}, {DType::kF32, on});
    const Tensor view = memory.as_strided(Shape({5, 31}), Strides({1, 7}), 1);
    fill(view);
    return contiguous(to(view, device::Device::get("host")));
  };
  expect_host_bits(gpu_, [&](const auto& on) { return filled(on, [](const Tensor& x) { normal_(x, 1, 2); }); });
  expect_host_bits(gpu_, [&](const auto& on) { return filled(on, [](const Tensor& x) { uniform_(x, -1, 2); }); });
  expect_host_bits(gpu_,
                   [&](const auto& on) { return filled(on, [](const Tensor& x) { trunc_normal_(x, 0, 1, -1, 1); }); });
}

TEST_F(RandomOnCuda, APartDrawsWhatTheWholeHasThere) {
  RandomAttributes part;
  part.shape = Shape({3, 4});
  part.seed = 9;
  part.call = 2;
  part.global = Shape({6, 10});
  part.index = {{.offset = 2, .block = 3, .levels = {}},
                {.offset = 2, .block = 2, .levels = {{.count = 2, .stride = 4}}}};
  const tensor::Operator op = tensor::find_op("randn");
  expect_same_bits(here(tensor::call_on(gpu_, op, part)), tensor::call_on(device::Device::get("host"), op, part));
}

TEST_F(RandomOnCuda, AReplayReadsTheCounterAnew) {
  const Tensor counter = there(testing::to_tensor(testing::Array(Shape({}), 0), DType::kI64));
  const Tensor x = empty({1001}, {DType::kF32, gpu_});
  manual_seed(1);
  normal_(x, 0, 1, counter);  // loads the kernels
  manual_seed(1);
  const memory::CapturedGraph graph = captured([&] { normal_(x, 0, 1, counter); });
  manual_seed(1);
  for (int replay = 0; replay < 2; ++replay) {
    copy_(counter, testing::to_tensor(testing::Array(Shape({}), replay), DType::kI64));
    graph.replay(stream());
    expect_same_bits(here(x), randn({1001}));
  }
}

}  // namespace
}  // namespace tessera::ops
