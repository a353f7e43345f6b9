// Bench of pointwise operators. Small calls measure overhead. Large calls are compared with hand-written loops of the
// same memory traffic, on one thread each.
#include <immintrin.h>

#include "tessera/base/testing/bench.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/pointwise/pointwise.h"

namespace tessera::ops {
namespace {

// Limits the rank to one thread during its lifetime.
struct OneThread {
  OneThread() : budget(detail::thread_budget()) { detail::set_thread_budget(1); }
  ~OneThread() { detail::set_thread_budget(budget); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  int budget;
};

Tensor normals(const Shape& shape) {
  Tensor x = randn(shape);
  x.device().synchronize();
  return x;
}

TESSERA_BENCH(small_calls) {
  const OneThread one;
  const Tensor a = normals({16});
  const Tensor b = normals({16});
  context.measure({.name = "small_add", .ours = [&] { bench::do_not_optimize(add(a, b)); }, .must = 250});
  const Tensor out = normals({16});
  context.measure({.name = "small_add_out", .ours = [&] { add(a, b, {.out = out}); }, .must = 120});
}

__attribute__((target("avx2,fma"))) void add_by_hand(float* out, const float* a, const float* b, std::int64_t n) {
  for (std::int64_t i = 0; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_add_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
  }
}

TESSERA_BENCH(stream_add) {
  if (!context.wants("stream_add")) return;
  const OneThread one;
  constexpr std::int64_t kCount = (std::int64_t{64} << 20) / 12;  // 64 MiB read and written
  const Tensor a = normals({kCount});
  const Tensor b = normals({kCount});
  const Tensor out = normals({kCount});
  context.measure(
      {.name = "stream_add",
       .unit = "GB/s",
       .per = 12.0 * kCount,
       .ours = [&] { add(a, b, {.out = out}); },
       .reference_name = "AVX2 loop",
       .reference = [&] { add_by_hand(out.data_as<float>(), a.data_as<float>(), b.data_as<float>(), kCount); },
       .must_ratio = 0.9});
}

#define TESSERA_BY_HAND __attribute__((target("avx2,fma"), always_inline)) inline
TESSERA_BY_HAND __m256 number(float x) { return _mm256_set1_ps(x); }

TESSERA_BY_HAND __m256 power(__m256i e) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23));
}

// e^x for x <= 0: 2^q times a polynomial of the remainder.
TESSERA_BY_HAND __m256 exp_by_hand(__m256 x) {
  x = _mm256_max_ps(x, number(-103.0F));
  const __m256 q =
      _mm256_round_ps(_mm256_mul_ps(x, number(1.44269504F)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fmadd_ps(q, number(-0.693145752F), x);
  r = _mm256_fmadd_ps(q, number(-1.42860677e-6F), r);
  __m256 p = number(1.0F / 720);
  for (const float next : {1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F, 1.0F, 1.0F}) p = _mm256_fmadd_ps(p, r, number(next));
  const __m256i whole = _mm256_cvtps_epi32(q);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  return _mm256_mul_ps(_mm256_mul_ps(p, power(half)), power(_mm256_sub_epi32(whole, half)));
}

// x times the normal distribution function, with the same fit as the operator.
__attribute__((target("avx2,fma"))) void gelu_by_hand(float* out, const float* in, std::int64_t n) {
  for (std::int64_t i = 0; i + 8 <= n; i += 8) {
    const __m256 x = _mm256_loadu_ps(in + i);
    const __m256 size = _mm256_andnot_ps(number(-0.0F), x);
    const __m256 t = _mm256_mul_ps(_mm256_min_ps(size, number(14.2F)), number(0.707106781F));
    const __m256 a = _mm256_add_ps(t, number(3));
    const __m256 b = _mm256_fmadd_ps(t, number(2), number(1));
    const __m256 inverse = _mm256_div_ps(number(1), _mm256_mul_ps(a, b));
    const __m256 u = _mm256_mul_ps(_mm256_mul_ps(_mm256_sub_ps(t, number(3)), b), inverse);
    __m256 p = number(-0.0002782657F);
    for (const float next : {-0.000800951788F, 0.00199252102F, 0.00257998426F, -0.0237891178F, 0.0682936671F,
                             -0.119272827F, 0.129646538F, -0.0475622721F, -0.135621142F, 1.25300806F}) {
      p = _mm256_fmadd_ps(p, u, number(next));
    }
    const __m256 e = exp_by_hand(_mm256_mul_ps(t, _mm256_sub_ps(number(0), t)));
    const __m256 tail = _mm256_mul_ps(_mm256_mul_ps(number(0.5F), e), _mm256_mul_ps(p, _mm256_mul_ps(a, inverse)));
    _mm256_storeu_ps(out + i, _mm256_fnmadd_ps(size, tail, _mm256_max_ps(x, number(0))));
  }
}

TESSERA_BENCH(stream_gelu) {
  if (!context.wants("stream_gelu")) return;
  const OneThread one;
  const Tensor x = normals({8192, 1024});
  const Tensor out = normals({8192, 1024});
  const std::int64_t n = x.numel();
  context.measure({.name = "stream_gelu",
                   .unit = "GB/s",
                   .per = 8.0 * static_cast<double>(n),
                   .ours = [&] { gelu(x, {.out = out}); },
                   .reference_name = "AVX2 loop",
                   .reference = [&] { gelu_by_hand(out.data_as<float>(), x.data_as<float>(), n); },
                   .must_ratio = 0.75});
}

}  // namespace
}  // namespace tessera::ops
