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

TEST_F(RandomOnCuda, CountsAndDrawsIntegersAsTheHostDoes) {
  manual_seed(5);
  constexpr std::int64_t kLeast = INT64_MIN;
  for (const DType dtype : {DType::kI64, DType::kI32, DType::kU8, DType::kF32, DType::kF64, DType::kBF16}) {
    for (const std::int64_t n : {1, 3, 4, 5, 1023, 300'001}) {
      SCOPED_TRACE(tessera::detail::concat(dtype, " ", n));
      expect_host_bits(gpu_, [&](const device::Device& on) { return randint(-5, 100, {n}, {dtype, on}); });
      expect_host_bits(gpu_, [&](const device::Device& on) { return randint(kLeast, INT64_MAX, {n}, {dtype, on}); });
      expect_host_bits(gpu_, [&](const device::Device& on) { return randint(0, kLeast / -4, {n}, {dtype, on}); });
      expect_host_bits(gpu_, [&](const device::Device& on) { return randperm(n, {dtype, on}); });
      expect_host_bits(gpu_, [&](const device::Device& on) { return arange(-7, 3 * n - 7, 3, {dtype, on}); });
      const double step = 0.37;
      const double end = step * static_cast<double>(n);
      expect_host_bits(gpu_, [&](const device::Device& on) { return arange(0.0, end, step, {dtype, on}); });
    }
    expect_host_bits(gpu_, [&](const device::Device& on) { return eye(70, 41, {dtype, on}); });
    expect_host_bits(gpu_, [&](const device::Device& on) { return eye(3, 400, {dtype, on}); });
    expect_host_bits(gpu_, [&](const device::Device& on) { return eye(0, 4, {dtype, on}); });
  }
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
  part.a = 0;
  part.b = 1;
  const auto expect_same_part = [&](const char* name, const auto& attributes) {
    const tensor::Operator op = tensor::find_op(name);
    expect_same_bits(here(tensor::call_on(gpu_, op, attributes)),
                     tensor::call_on(device::Device::get("host"), op, attributes));
  };
  expect_same_part("randn", part);
  part.b = 1000;
  expect_same_part("randint", part);
  expect_same_part("eye", EyeAttributes{part.shape, DType::kF32, part.index});
  expect_same_part("arange", ArangeAttributes{4, DType::kI64, 3, 2, {part.index[1]}});
  RandomAttributes order = part;
  order.shape = Shape({4});
  order.global = Shape({10});
  order.index = {part.index[1]};
  order.a = 10;
  expect_same_part("randperm", order);
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
