// Products on one thread against the best direct call of BLAS on the same memory.
#include <cblas.h>

#include <random>

#include "tessera/base/testing/bench.h"
#include "tessera/ops/detail/parallel.h"
#include "tessera/ops/matrix/matrix.h"

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

void sgemm(int m, int n, int k, const float* a, const float* b, bool is_b_transposed, float* c) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, is_b_transposed ? CblasTrans : CblasNoTrans, m, n, k, 1, a, k, b,
              is_b_transposed ? k : n, 0, c, n);
}

void measure_square(bench::Context& context, const std::string& name, int size) {
  const Tensor a = random_tensor({size, size});
  const Tensor b = random_tensor({size, size});
  const Tensor out = random_tensor({size, size});
  context.measure(
      {.name = name,
       .unit = "us",
       .ours = [&] { mm_out(out, a, b); },
       .reference_name = "cblas_sgemm",
       .reference =
           [&] { sgemm(size, size, size, a.data_as<float>(), b.data_as<float>(), false, out.data_as<float>()); },
       .must_ratio = 0.95});
}

TESSERA_BENCH(matrix) {
  detail::set_thread_budget(1);
  measure_square(context, "matmul_1024", 1024);
  measure_square(context, "matmul_64", 64);
  {
    const Tensor x = random_tensor({512, 1024});
    const Tensor weight = random_tensor({2048, 1024});
    const Tensor out = random_tensor({512, 2048});
    context.measure(
        {.name = "linear_transposed",
         .unit = "us",
         .ours =
             [&] {
               mm_out(out, x, weight.as_strided({1024, 2048}, {1, 1024}, 0));
             },
         .reference_name = "cblas_sgemm, transposed",
         .reference =
             [&] { sgemm(512, 2048, 1024, x.data_as<float>(), weight.data_as<float>(), true, out.data_as<float>()); },
         .must_ratio = 0.95});
  }
  const Tensor a = random_tensor({64, 128, 128});
  const Tensor b = random_tensor({64, 128, 64});
  const Tensor out = random_tensor({64, 128, 64});
  context.measure({.name = "bmm_64x128x128x64",
                   .unit = "us",
                   .ours = [&] { bmm_out(out, a, b); },
                   .reference_name = "cblas_sgemm, 64 times",
                   .reference =
                       [&] {
                         for (std::int64_t i = 0; i < 64; ++i) {
                           sgemm(128, 64, 128, a.data_as<float>() + i * 128 * 128, b.data_as<float>() + i * 128 * 64,
                                 false, out.data_as<float>() + i * 128 * 64);
                         }
                       },
                   .must_ratio = 0.95});
}

}  // namespace
}  // namespace tessera::ops
