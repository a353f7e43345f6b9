// Products on one thread against the fastest direct call of a library on the same memory.
#include <random>

#include "tessera/base/testing/bench.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/testing/direct_sgemm.h"

namespace tessera::ops {
namespace {

Tensor random_tensor(const Shape& shape) {
  Tensor tensor = Tensor::allocate(shape, DType::kF32, device::Device::get("host"));
  tensor.device().synchronize();
  std::mt19937 random(1);
  std::uniform_real_distribution<float> of(-1, 1);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.data_as<float>()[i] = of(random);
  return tensor;
}

testing::DirectSgemm sgemm(int m, int n, int k, const float* a, const float* b, bool is_b_transposed, float* c) {
  return {.m = m, .n = n, .k = k, .a = a, .b = b, .c = c, .is_b_transposed = is_b_transposed};
}

void measure_square(bench::Context& context, const std::string& name, int size) {
  const Tensor a = random_tensor({size, size});
  const Tensor b = random_tensor({size, size});
  const Tensor out = random_tensor({size, size});
  const auto direct = sgemm(size, size, size, a.data_as<float>(), b.data_as<float>(), false, out.data_as<float>());
  context.measure({.name = name,
                   .unit = "us",
                   .ours = [&] { mm(a, b, {.out = out}); },
                   .reference_name = direct.library(),
                   .reference = [&] { direct.run(); },
                   .must_ratio = 0.97});
}

TESSERA_BENCH(matrix) {
  detail::set_thread_budget(1);
  measure_square(context, "matmul_1024", 1024);
  measure_square(context, "matmul_64", 64);
  {
    const Tensor x = random_tensor({512, 1024});
    const Tensor weight = random_tensor({2048, 1024});
    const Tensor out = random_tensor({512, 2048});
    const auto direct = sgemm(512, 2048, 1024, x.data_as<float>(), weight.data_as<float>(), true, out.data_as<float>());
    context.measure({.name = "linear_transposed",
                     .unit = "us",
                     .ours =
                         [&] {
                           mm(x, weight.as_strided({1024, 2048}, {1, 1024}, 0), {.out = out});
                         },
                     .reference_name = direct.library() + ", transposed",
                     .reference = [&] { direct.run(); },
                     .must_ratio = 0.97});
  }
  const Tensor a = random_tensor({64, 128, 128});
  const Tensor b = random_tensor({64, 128, 64});
  const Tensor out = random_tensor({64, 128, 64});
  context.measure({.name = "bmm_64x128x128x64",
                   .unit = "us",
                   .ours = [&] { bmm(a, b, {.out = out}); },
                   .reference_name = "direct calls, 64 times",
                   .reference =
                       [&] {
                         for (std::int64_t i = 0; i < 64; ++i) {
                           sgemm(128, 64, 128, a.data_as<float>() + i * 128 * 128, b.data_as<float>() + i * 128 * 64,
                                 false, out.data_as<float>() + i * 128 * 64)
                               .run();
                         }
                       },
                   .must_ratio = 0.95});
}

}  // namespace
}  // namespace tessera::ops
