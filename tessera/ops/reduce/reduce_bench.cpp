// Compares sums on one thread with a hand-written AVX2 loop that reads the same memory.
#include <immintrin.h>

#include "tessera/base/testing/bench.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

constexpr std::int64_t kFloats = std::int64_t{16} << 20;

Tensor ones() {
  Tensor x = Tensor::allocate({kFloats}, DType::kF32, device::Device::get("host"));
  x.device().synchronize();
  std::fill_n(x.data_as<float>(), kFloats, 1.0F);
  return x;
}

__attribute__((target("avx2"))) float avx2_sum(const float* x, std::int64_t n) {
  __m256 sums[8];
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  for (std::int64_t i = 0; i < n; i += 64) {
    for (int k = 0; k < 8; ++k) sums[k] = _mm256_add_ps(sums[k], _mm256_loadu_ps(x + i + 8 * k));
  }
  for (int k = 1; k < 8; ++k) sums[0] = _mm256_add_ps(sums[0], sums[k]);
  float lanes[8];
  _mm256_storeu_ps(lanes, sums[0]);
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

TESSERA_BENCH(reduce) {
  detail::set_thread_budget(1);
  const Tensor x = ones();
  const Tensor out = sum(x);
  context.measure({.name = "stream_sum",
                   .unit = "us",
                   .ours =
                       [&] {
                         tensor::call_out(tensor::find_op("sum"), out, {x}, SumAttributes{{}, false, DType::kF32});
                         out.device().synchronize();
                       },
                   .reference_name = "AVX2 loop",
                   .reference = [&] { bench::do_not_optimize(avx2_sum(x.data_as<float>(), kFloats)); },
                   .must_ratio = 0.9});
  const Tensor columns = x.as_strided({kFloats / 1024, 1024}, {1024, 1}, 0);
  const Tensor row = sum(columns, {0});
  context.measure(
      {.name = "stream_sum_columns",
       .unit = "us",
       .ours =
           [&] {
             tensor::call_out(tensor::find_op("sum"), row, {columns}, SumAttributes{{0}, false, DType::kF32});
             row.device().synchronize();
           },
       .reference_name = "AVX2 loop",
       .reference = [&] { bench::do_not_optimize(avx2_sum(x.data_as<float>(), kFloats)); }});
}

}  // namespace
}  // namespace tessera::ops
