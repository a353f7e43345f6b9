// Compares row operators with hand-written AVX2 loops of the same memory traffic on one thread, and attention with the
// rate of large products in the same run, both on all threads.
#include <immintrin.h>

#include <chrono>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "tessera/base/testing/bench.h"
#include "tessera/ops/nn/attention.h"
#include "tessera/ops/nn/norm.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/testing/direct_sgemm.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

// The references require AVX2. On other processors the bench reports this and measures nothing.
#define TESSERA_AVX2 [[gnu::target("avx2,fma")]]

constexpr std::int64_t kRows = 8192;
constexpr std::int64_t kWidth = 1024;

Tensor random_tensor(const Shape& shape) {
  Tensor tensor = Tensor::allocate(shape, DType::kF32, device::Device::get("host"));
  tensor.device().synchronize();
  std::mt19937 random(1);
  std::uniform_real_distribution<float> of(-1, 1);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.data_as<float>()[i] = of(random);
  return tensor;
}

TESSERA_AVX2 float sum_of(__m256 x) {
  alignas(32) float lanes[8];
  _mm256_store_ps(lanes, x);
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

TESSERA_AVX2 float max_of(__m256 x) {
  alignas(32) float lanes[8];
  _mm256_store_ps(lanes, x);
  float most = lanes[0];
  for (const float lane : lanes) most = std::max(most, lane);
  return most;
}

// exp by the first seven Taylor terms after range reduction.
TESSERA_AVX2 __m256 exp_of(__m256 x) {
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)), 8);
  const __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693147181f), x);
  __m256 p = _mm256_set1_ps(1.0f / 720);
  for (const float term : {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) {
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(term));
  }
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23)));
}

TESSERA_AVX2 void softmax_loop(const float* x, float* y) {
  for (std::int64_t row = 0; row < kRows; ++row, x += kWidth, y += kWidth) {
    __m256 most = _mm256_loadu_ps(x);
    for (std::int64_t i = 8; i < kWidth; i += 8) most = _mm256_max_ps(most, _mm256_loadu_ps(x + i));
    const __m256 shift = _mm256_set1_ps(max_of(most));
    __m256 sum = _mm256_setzero_ps();
    for (std::int64_t i = 0; i < kWidth; i += 8) {
      const __m256 value = exp_of(_mm256_sub_ps(_mm256_loadu_ps(x + i), shift));
      _mm256_storeu_ps(y + i, value);
      sum = _mm256_add_ps(sum, value);
    }
    const __m256 by = _mm256_set1_ps(1 / sum_of(sum));
    for (std::int64_t i = 0; i < kWidth; i += 8) _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_loadu_ps(y + i), by));
  }
}

TESSERA_AVX2 void layer_norm_loop(const float* x, const float* weight, const float* bias, float* y) {
  for (std::int64_t row = 0; row < kRows; ++row, x += kWidth, y += kWidth) {
    __m256 sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (std::int64_t i = 0; i < kWidth; i += 16) {
      sums[0] = _mm256_add_ps(sums[0], _mm256_loadu_ps(x + i));
      sums[1] = _mm256_add_ps(sums[1], _mm256_loadu_ps(x + i + 8));
    }
    const __m256 mean = _mm256_set1_ps(sum_of(_mm256_add_ps(sums[0], sums[1])) / kWidth);
    __m256 squares[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (std::int64_t i = 0; i < kWidth; i += 16) {
      const __m256 a = _mm256_sub_ps(_mm256_loadu_ps(x + i), mean);
      const __m256 b = _mm256_sub_ps(_mm256_loadu_ps(x + i + 8), mean);
      squares[0] = _mm256_fmadd_ps(a, a, squares[0]);
      squares[1] = _mm256_fmadd_ps(b, b, squares[1]);
    }
    const __m256 rstd = _mm256_set1_ps(1 / std::sqrt(sum_of(_mm256_add_ps(squares[0], squares[1])) / kWidth + 1e-5f));
    for (std::int64_t i = 0; i < kWidth; i += 8) {
      const __m256 hat = _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(x + i), mean), rstd);
      _mm256_storeu_ps(y + i, _mm256_fmadd_ps(hat, _mm256_loadu_ps(weight + i), _mm256_loadu_ps(bias + i)));
    }
  }
}

TESSERA_AVX2 void rms_norm_loop(const float* x, const float* weight, float* y) {
  for (std::int64_t row = 0; row < kRows; ++row, x += kWidth, y += kWidth) {
    __m256 squares[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (std::int64_t i = 0; i < kWidth; i += 16) {
      const __m256 a = _mm256_loadu_ps(x + i);
      const __m256 b = _mm256_loadu_ps(x + i + 8);
      squares[0] = _mm256_fmadd_ps(a, a, squares[0]);
      squares[1] = _mm256_fmadd_ps(b, b, squares[1]);
    }
    const __m256 rstd = _mm256_set1_ps(1 / std::sqrt(sum_of(_mm256_add_ps(squares[0], squares[1])) / kWidth + 1e-6f));
    for (std::int64_t i = 0; i < kWidth; i += 8) {
      _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), rstd), _mm256_loadu_ps(weight + i)));
    }
  }
}

TESSERA_BENCH(rows) {
  if (!__builtin_cpu_supports("avx2")) {
    context.skip("no AVX2");
    return;
  }
  detail::set_thread_budget(1);
  const Tensor x = random_tensor({kRows, kWidth});
  const Tensor y = random_tensor({kRows, kWidth});
  const Tensor weight = random_tensor({kWidth});
  const Tensor bias = random_tensor({kWidth});
  const Tensor mean = random_tensor({kRows});
  const Tensor rstd = random_tensor({kRows});
  const auto run = [&](const char* op, std::vector<Tensor> inputs, std::vector<Tensor> outputs,
                       const tensor::AttributesRef& attributes) {
    tensor::call_into({tensor::find_op(op), inputs, attributes, outputs});
  };
  context.measure({.name = "softmax_rows",
                   .unit = "us",
                   .ours = [&] { run("softmax", {x}, {y}, SoftmaxAttributes{1}); },
                   .reference_name = "AVX2 loop",
                   .reference = [&] { softmax_loop(x.data_as<float>(), y.data_as<float>()); },
                   .must_ratio = 0.75});
  context.measure({.name = "layer_norm_rows",
                   .unit = "us",
                   .ours =
                       [&] {
                         run("layer_norm", {x, weight, bias}, {y, mean, rstd}, NormalizationAttributes{1e-5});
                       },
                   .reference_name = "AVX2 loop",
                   .reference =
                       [&] {
                         layer_norm_loop(x.data_as<float>(), weight.data_as<float>(), bias.data_as<float>(),
                                         y.data_as<float>());
                       },
                   .must_ratio = 0.75});
  context.measure({.name = "rms_norm_rows",
                   .unit = "us",
                   .ours =
                       [&] {
                         run("rms_norm", {x, weight}, {y, rstd}, NormalizationAttributes{1e-6});
                       },
                   .reference_name = "AVX2 loop",
                   .reference = [&] { rms_norm_loop(x.data_as<float>(), weight.data_as<float>(), y.data_as<float>()); },
                   .must_ratio = 0.75});
}

// Large products on several threads, by direct library calls.
class DirectProducts {
 public:
  static constexpr int kSize = 1024;

  explicit DirectProducts(int threads) {
    for (int i = 0; i < threads; ++i) results_.push_back(random_tensor({kSize, kSize}));
    product(0).run();  // selects the library
  }
  void run() const {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < results_.size(); ++i) others.emplace_back([this, i] { product(i).run(); });
    product(0).run();
  }
  [[nodiscard]] double flops() const { return 2.0 * kSize * kSize * kSize * static_cast<double>(results_.size()); }

 private:
  [[nodiscard]] testing::DirectSgemm product(std::size_t i) const {
    return {.m = kSize,
            .n = kSize,
            .k = kSize,
            .a = a_.data_as<float>(),
            .b = b_.data_as<float>(),
            .c = results_[i].data_as<float>()};
  }

  Tensor a_ = random_tensor({kSize, kSize});
  Tensor b_ = random_tensor({kSize, kSize});
  std::vector<Tensor> results_;
};

// Both sides are in floating-point operations per second; attention counts only those inside the causal mask.
TESSERA_BENCH(attention) {
  if (!context.wants("attention_fwd") && !context.wants("attention_bwd")) return;
  const int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  detail::set_thread_budget(threads);
  constexpr double kPairs = 8.0 * 2048 * 2048 / 2;
  const Shape shape({1, 8, 2048, 64});
  const Tensor q = random_tensor(shape);
  const Tensor k = random_tensor(shape);
  const Tensor v = random_tensor(shape);
  const Tensor grad = random_tensor(shape);
  const AttentionBias bias = {.is_causal = true};
  const AttentionResult forward = attention_with_logsumexp(q, k, v, bias);
  const DirectProducts products(threads);
  const auto run_products = [&] { products.run(); };
  context.measure({.name = "attention_fwd",
                   .unit = "G/s",
                   .per = kPairs * 4 * 64,
                   .ours =
                       [&] {
                         attention_with_logsumexp(q, k, v, bias);
                         q.device().synchronize();
                       },
                   .reference_name = "sgemm of 1024 on each thread",
                   .reference = run_products,
                   .reference_per = products.flops(),
                   .must_ratio = 0.75});
  context.measure({.name = "attention_bwd",
                   .unit = "G/s",
                   .per = kPairs * 10 * 64,
                   .ours =
                       [&] {
                         scaled_dot_product_attention_backward({grad, {}}, q, k, v, forward, bias);
                         q.device().synchronize();
                       },
                   .reference_name = "sgemm of 1024 on each thread",
                   .reference = run_products,
                   .reference_per = products.flops(),
                   .must_ratio = 0.85});
  detail::set_thread_budget(1);
}

}  // namespace
}  // namespace tessera::ops
