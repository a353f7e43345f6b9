// AdamW over many tensors in one launch, with the operations and the rounding of update_kernels.cpp. Results differ
// from those of the host only as far as pow() of doubles does.
//
// Blocks process chunks of the tensors in turn. The step is read and incremented in place, which needs an order: each
// block adds 1 to the upper half of the word when it reads, and the last block writes the new step.
#include "tessera/ops/cuda/elements.cuh"
#include "tessera/ops/update/cuda/adamw_lists.h"

namespace tessera::ops::cuda {
namespace {

__device__ float mul(float a, float b) { return __fmul_rn(a, b); }
__device__ double mul(double a, double b) { return __dmul_rn(a, b); }
__device__ float mul_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ double mul_add(double a, double b, double c) { return __fma_rn(a, b, c); }
__device__ float quotient(float a, float b) { return __fdiv_rn(a, b); }
__device__ double quotient(double a, double b) { return __ddiv_rn(a, b); }
__device__ float root(float a) { return __fsqrt_rn(a); }
__device__ double root(double a) { return __dsqrt_rn(a); }

// The values that do not depend on the element, in doubles.
struct Step {
  double beta1, beta2, eps, keep, clip, rate, root_scale;
  bool is_skipped;
};
template <class T>
struct TypedStep {
  T beta1, beta2, rest1, rest2, eps, keep, clip, rate, root_scale;
  __device__ explicit TypedStep(const Step& of)
      : beta1(static_cast<T>(of.beta1)),
        beta2(static_cast<T>(of.beta2)),
        rest1(T(1) - static_cast<T>(of.beta1)),
        rest2(T(1) - static_cast<T>(of.beta2)),
        eps(static_cast<T>(of.eps)),
        keep(static_cast<T>(of.keep)),
        clip(static_cast<T>(of.clip)),
        rate(static_cast<T>(of.rate)),
        root_scale(static_cast<T>(of.root_scale)) {}
  __device__ void operator()(T& param, T grad, T& first, T& second) const {
    grad = mul(grad, clip);
    first = mul_add(rest1, grad, mul(beta1, first));
    second = mul_add(mul(rest2, grad), grad, mul(beta2, second));
    param = mul_add(-rate, quotient(first, mul_add(root(second), root_scale, eps)), mul(param, keep));
  }
};

__device__ double read(const AdamWScalar& of, double otherwise) {
  return of.data != nullptr ? load<double>(of.data, of.dtype, 0) : otherwise;
}

// The step so far, read once by each block; writes the new one when all have read it.
__device__ std::int64_t take_step(const AdamWStepInfo& info, bool is_skipped) {
  const std::int64_t by = is_skipped ? 0 : 1;
  if (info.new_step == nullptr) return *info.step;
  if (info.new_step != info.step) {
    const std::int64_t done = *info.step;
    if (blockIdx.x == 0) *info.new_step = done + by;
    return done;
  }
  constexpr unsigned long long kArrival = 1ULL << 32;
  const unsigned long long seen = atomicAdd(reinterpret_cast<unsigned long long*>(info.step), kArrival);
  const auto done = static_cast<std::int64_t>(seen & (kArrival - 1));
  if (seen / kArrival == gridDim.x - 1) *static_cast<volatile std::int64_t*>(info.step) = done + by;
  return done;
}

// Computed by the first thread for the block.
__device__ void prepare(const AdamWStepInfo& info, Step& step) {
  if (threadIdx.x == 0) {
    const double rate = read(info.learning_rate, 0);
    step.is_skipped = read(info.skip, 0) != 0;
    const auto power = static_cast<double>(take_step(info, step.is_skipped) + 1);
    step.beta1 = info.beta1;
    step.beta2 = info.beta2;
    step.eps = info.eps;
    step.keep = 1 - rate * info.weight_decay;
    step.clip = read(info.clip, 1);
    step.rate = rate / (1 - pow(info.beta1, power));
    step.root_scale = 1 / sqrt(1 - pow(info.beta2, power));
  }
  __syncthreads();
}

// N elements of a dense tensor; one at a time, offsets may differ.
template <class T, int N>
__device__ void update(const AdamWTensor& of, const std::int64_t (&at)[kAdamWParts], const TypedStep<T>& step,
                       bool is_skipped) {
  T values[4][N];
#pragma unroll
  for (int part = 0; part < 4; ++part) {
    if constexpr (N == 1) {
      values[part][0] = load<T>(of.parts[part], of.dtypes[part], at[part]);
    } else {
      load_vector<N>(values[part], of.parts[part], of.dtypes[part], at[part]);
    }
  }
  if (!is_skipped) {
#pragma unroll
    for (int k = 0; k < N; ++k) step(values[kParam][k], values[kGrad][k], values[kFirst][k], values[kSecond][k]);
  }
  constexpr int kFrom[] = {kParam, kFirst, kSecond};
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const int part = kNewParam + i;
    if constexpr (N == 1) {
      store(values[kFrom[i]][0], of.parts[part], of.dtypes[part], at[part]);
    } else {
      store_vector<N>(values[kFrom[i]], of.parts[part], of.dtypes[part], at[part]);
    }
  }
}

__device__ bool is_in_place(const AdamWTensor& of) {
  return of.parts[kParam] == of.parts[kNewParam] && of.parts[kFirst] == of.parts[kNewFirst] &&
         of.parts[kSecond] == of.parts[kNewSecond];
}

template <class T, int N>
__device__ void update_piece(const AdamWTensor& of, std::int64_t begin, const Step& step) {
  const TypedStep<T> typed(step);
  const std::int64_t end = begin + kAdamWPiece < of.numel ? begin + kAdamWPiece : of.numel;
  for (std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x) * N; i < end;
       i += static_cast<std::int64_t>(blockDim.x) * N) {
    if (i + N <= end) {
      const std::int64_t at[kAdamWParts] = {i, i, i, i, i, i, i};
      update<T, N>(of, at, typed, step.is_skipped);
      continue;
    }
    for (std::int64_t k = i; k < end; ++k) {
      const std::int64_t at[kAdamWParts] = {k, k, k, k, k, k, k};
      update<T, 1>(of, at, typed, step.is_skipped);
    }
  }
}

// All parts in f32: loads of two vectors of each part overlap, which dtypes selected at run time would prevent.
__device__ void update_floats(const AdamWTensor& of, std::int64_t begin, const Step& step) {
  constexpr int kAtOnce = 2;
  const TypedStep<float> typed(step);
  const std::int64_t end = begin + kAdamWPiece < of.numel ? begin + kAdamWPiece : of.numel;
  const std::int64_t stride = static_cast<std::int64_t>(blockDim.x) * 4;
  for (std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x) * 4; i + 4 <= end; i += kAtOnce * stride) {
    float4 values[4][kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const std::int64_t at = i + k * stride;
      if (at + 4 > end) break;
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        values[part][k] = *reinterpret_cast<const float4*>(reinterpret_cast<const float*>(of.parts[part]) + at);
      }
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const std::int64_t at = i + k * stride;
      if (at + 4 > end) break;
      float4& param = values[kParam][k];
      const float4& grad = values[kGrad][k];
      float4& first = values[kFirst][k];
      float4& second = values[kSecond][k];
      if (!step.is_skipped) {
        typed(param.x, grad.x, first.x, second.x);
        typed(param.y, grad.y, first.y, second.y);
        typed(param.z, grad.z, first.z, second.z);
        typed(param.w, grad.w, first.w, second.w);
      }
      *reinterpret_cast<float4*>(reinterpret_cast<float*>(of.parts[kNewParam]) + at) = param;
      *reinterpret_cast<float4*>(reinterpret_cast<float*>(of.parts[kNewFirst]) + at) = first;
      *reinterpret_cast<float4*>(reinterpret_cast<float*>(of.parts[kNewSecond]) + at) = second;
    }
  }
  // The incomplete last vector at the end of a tensor.
  const std::int64_t rest = (end - begin) % 4;
  if (threadIdx.x < rest) {
    const std::int64_t i = end - rest + threadIdx.x;
    const std::int64_t at[kAdamWParts] = {i, i, i, i, i, i, i};
    update<float, 1>(of, at, typed, step.is_skipped);
  }
}

// Returns the tensor of a chunk: the last one that begins at or before it.
__device__ int tensor_of(const AdamWLists& lists, int piece) {
  int low = 0;
  int high = lists.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (lists.first_piece[middle] <= piece) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) adamw_lists(const __grid_constant__ AdamWLists lists) {
  __shared__ Step step;
  prepare(lists.info, step);
  for (int piece = static_cast<int>(blockIdx.x); piece < lists.pieces; piece += static_cast<int>(gridDim.x)) {
    const int which = tensor_of(lists, piece);
    const AdamWTensor& of = lists.tensors[which];
    if (step.is_skipped && is_in_place(of)) continue;
    const std::int64_t begin = (piece - lists.first_piece[which]) * kAdamWPiece;
    if (of.dtypes[kParam] == DType::kF64) {
      update_piece<double, 1>(of, begin, step);
    } else if (of.has_vectors && of.is_float) {
      update_floats(of, begin, step);
    } else if (of.has_vectors) {
      update_piece<float, 4>(of, begin, step);
    } else {
      update_piece<float, 1>(of, begin, step);
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) adamw_strided(const __grid_constant__ AdamWStrided of) {
  __shared__ Step step;
  prepare(of.info, step);
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < of.tensor.numel;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    std::int64_t at[kAdamWParts] = {};
    std::int64_t rest = i;
    for (int d = of.ndim; d-- > 0;) {
      const std::int64_t digit = rest % of.sizes[d];
      rest /= of.sizes[d];
      for (int part = 0; part < kAdamWParts; ++part) at[part] += digit * of.strides[part][d];
    }
    if (of.tensor.dtypes[kParam] == DType::kF64) {
      update<double, 1>(of.tensor, at, TypedStep<double>(step), step.is_skipped);
    } else {
      update<float, 1>(of.tensor, at, TypedStep<float>(step), step.is_skipped);
    }
  }
}

}  // namespace tessera::ops::cuda
