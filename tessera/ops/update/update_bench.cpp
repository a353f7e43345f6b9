// AdamW over 300 tensors of ten million elements together, in one launch, against a hand-written AVX2 loop of the same
// reads and writes; one thread.
#include <immintrin.h>

#include <cmath>

#include "tessera/base/testing/bench.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/update/update.h"

namespace tessera::ops {
namespace {

#define TESSERA_AVX2 [[gnu::target("avx2,fma")]]

constexpr std::int64_t kTensors = 300;
constexpr std::int64_t kElements = 33336;  // of each

std::vector<Tensor> list_of(float value) {
  std::vector<Tensor> all;
  for (std::int64_t i = 0; i < kTensors; ++i) {
    all.push_back(Tensor::allocate({kElements}, DType::kF32, device::Device::get("host")));
    all.back().device().synchronize();
    std::fill_n(all.back().data_as<float>(), kElements, value);
  }
  return all;
}

template <class T>
Tensor scalar(T value) {
  Tensor tensor = Tensor::allocate({}, dtype_of<T>(), device::Device::get("host"));
  tensor.device().synchronize();
  *tensor.data_as<T>() = value;
  return tensor;
}

TESSERA_AVX2 void adamw_loop(float* param, const float* grad, float* first, float* second, float rate,
                             float root_scale) {
  const __m256 beta1 = _mm256_set1_ps(0.9f);
  const __m256 beta2 = _mm256_set1_ps(0.999f);
  const __m256 rest1 = _mm256_set1_ps(0.1f);
  const __m256 rest2 = _mm256_set1_ps(0.001f);
  const __m256 keep = _mm256_set1_ps(1 - 1e-5f);
  for (std::int64_t i = 0; i < kElements; i += 8) {
    const __m256 g = _mm256_loadu_ps(grad + i);
    const __m256 m = _mm256_fmadd_ps(rest1, g, _mm256_mul_ps(beta1, _mm256_loadu_ps(first + i)));
    const __m256 v = _mm256_fmadd_ps(_mm256_mul_ps(rest2, g), g, _mm256_mul_ps(beta2, _mm256_loadu_ps(second + i)));
    const __m256 root = _mm256_fmadd_ps(_mm256_sqrt_ps(v), _mm256_set1_ps(root_scale), _mm256_set1_ps(1e-8f));
    const __m256 p = _mm256_mul_ps(_mm256_loadu_ps(param + i), keep);
    _mm256_storeu_ps(first + i, m);
    _mm256_storeu_ps(second + i, v);
    _mm256_storeu_ps(param + i, _mm256_fnmadd_ps(_mm256_set1_ps(rate), _mm256_div_ps(m, root), p));
  }
}

TESSERA_BENCH(adamw) {
  if (!context.wants("adamw_foreach_300")) return;
  if (!__builtin_cpu_supports("avx2")) {
    context.skip("no AVX2");
    return;
  }
  detail::set_thread_budget(1);
  const std::vector<Tensor> params = list_of(1);
  const std::vector<Tensor> grads = list_of(0.5F);
  const std::vector<Tensor> first = list_of(0);
  const std::vector<Tensor> second = list_of(0);
  const Tensor step = scalar<std::int64_t>(0);
  const StepScalars scalars = {.learning_rate = scalar(1e-3F), .clip_factor = scalar(1.0F), .skip = scalar(false)};
  context.measure({.name = "adamw_foreach_300",
                   .unit = "us",
                   .ours = [&] { adamw_(params, grads, first, second, step, scalars); },
                   .reference_name = "AVX2 loop",
                   .reference =
                       [&] {
                         for (std::size_t i = 0; i < params.size(); ++i) {
                           adamw_loop(params[i].data_as<float>(), grads[i].data_as<float>(), first[i].data_as<float>(),
                                      second[i].data_as<float>(), 1e-3F, 1.0F);
                         }
                       },
                   .must_ratio = 0.85});
}

}  // namespace
}  // namespace tessera::ops
