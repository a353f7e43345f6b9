// swiglu and its gradients, with the limits of the host (pointwise/activations.cpp). Runs of vectors are read with
// several vectors under way per thread; anything else is read element by element.
#include "tessera/ops/nn/cuda/row_cursor.cuh"
#include "tessera/ops/nn/cuda/swiglu_call.h"

namespace tessera::ops::cuda {
namespace {

__device__ inline float inverse_of(float x) { return __fdividef(1.0F, x); }
__device__ inline double inverse_of(double x) { return 1 / x; }
template <class T>
__device__ T sigmoid(T x) {
  return inverse_of(T(1) + exp_of(-x));
}
template <class T>
__device__ T silu(T x, T sigmoid_of_x) {
  return x == minus_infinity<T>() ? T(0) : x * sigmoid_of_x;
}

// The function of the inputs of one element: kResults results of kInputs inputs.
struct Forward {
  static constexpr int kResults = 1;
  static constexpr int kInputs = 2;
  static constexpr int kUnroll = 4;
  template <class T>
  static __device__ void apply(const T (&in)[2], T (&out)[1]) {
    out[0] = silu(in[0], sigmoid(in[0])) * in[1];
  }
};
struct Backward {
  static constexpr int kResults = 2;
  static constexpr int kInputs = 3;
  static constexpr int kUnroll = 2;
  template <class T>
  static __device__ void apply(const T (&in)[3], T (&out)[2]) {
    const T a = in[1];
    // Beyond the bounds, the sigmoid is 0 or 1 and its product with an infinity would be nan.
    const T t = a < T(-1000) ? T(-1000) : a > T(1000) ? T(1000) : a;
    const T s = sigmoid(t);
    out[0] = in[0] * in[2] * (s * (T(1) + t * (T(1) - s)));
    out[1] = in[0] * silu(a, s);
  }
};

template <class Form, class Function>
__device__ void run_vectors(const SwigluCall& call) {
  using T = typename Form::T;
  constexpr int N = Form::N;
  constexpr int kResults = Function::kResults;
  constexpr int kOperands = kResults + Function::kInputs;
  constexpr int kUnroll = Function::kUnroll;
  for (std::int64_t run = blockIdx.y; run < call.runs; run += gridDim.y) {
    RowCursor<Form> rows[kOperands];
#pragma unroll
    for (int o = 0; o < kOperands; ++o) {
      std::int64_t rest = run;
      std::int64_t at = 0;
      for (int d = 0; d < call.ndim; ++d) {
        at += rest % call.sizes[d] * call.strides[d][o];
        rest /= call.sizes[d];
      }
      rows[o].at = call.data[o] + at * (16 / N);
      rows[o].dtype = call.dtypes[o];
    }
    const std::int64_t tile = std::int64_t{kUnroll} * blockDim.x * N;
    for (std::int64_t start = blockIdx.x * tile; start < call.run; start += gridDim.x * tile) {
      uint4 raw[kUnroll][Function::kInputs];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const std::int64_t i = start + (std::int64_t{u} * blockDim.x + threadIdx.x) * N;
        if (i >= call.run) continue;
#pragma unroll
        for (int in = 0; in < Function::kInputs; ++in) raw[u][in] = rows[kResults + in].read(i);
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const std::int64_t i = start + (std::int64_t{u} * blockDim.x + threadIdx.x) * N;
        if (i >= call.run) continue;
        T in[Function::kInputs][N];
        T out[kResults][N];
#pragma unroll
        for (int o = 0; o < Function::kInputs; ++o) unpack<Form>(in[o], raw[u][o]);
#pragma unroll
        for (int k = 0; k < N; ++k) {
          T of_element[Function::kInputs];
          T results[kResults];
#pragma unroll
          for (int o = 0; o < Function::kInputs; ++o) of_element[o] = in[o][k];
          Function::apply(of_element, results);
#pragma unroll
          for (int o = 0; o < kResults; ++o) out[o][k] = results[o];
        }
#pragma unroll
        for (int o = 0; o < kResults; ++o) rows[o].write(out[o], i);
      }
    }
  }
}

template <class T, class Function>
__device__ void run_elements(const SwigluCall& call) {
  constexpr int kResults = Function::kResults;
  constexpr int kOperands = kResults + Function::kInputs;
  const std::int64_t count = call.run * call.runs;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t e = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; e < count; e += stride) {
    std::int64_t at[kOperands];
    std::int64_t rest = e / call.run;
#pragma unroll
    for (int o = 0; o < kOperands; ++o) at[o] = (e - rest * call.run) * call.steps[o];
    for (int d = 0; d < call.ndim; ++d) {
      const std::int64_t digit = rest % call.sizes[d];
      rest /= call.sizes[d];
#pragma unroll
      for (int o = 0; o < kOperands; ++o) at[o] += digit * call.strides[d][o];
    }
    T in[Function::kInputs];
    T out[kResults];
#pragma unroll
    for (int o = 0; o < Function::kInputs; ++o) {
      in[o] = load<T>(call.data[kResults + o], call.dtypes[kResults + o], at[kResults + o]);
    }
    Function::apply(in, out);
#pragma unroll
    for (int o = 0; o < kResults; ++o) store(out[o], call.data[o], call.dtypes[o], at[o]);
  }
}

}  // namespace

#define TESSERA_SWIGLU_KERNEL(name, ...) \
  extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ SwigluCall call) { __VA_ARGS__(call); }
#define TESSERA_SWIGLU_KERNELS(name, function)                          \
  TESSERA_SWIGLU_KERNEL(name##_float, run_vectors<FloatForm, function>) \
  TESSERA_SWIGLU_KERNEL(name##_bf16, run_vectors<Bf16Form, function>)   \
  TESSERA_SWIGLU_KERNEL(name##_f16, run_vectors<F16Form, function>)     \
  TESSERA_SWIGLU_KERNEL(name##_any, run_elements<float, function>)      \
  TESSERA_SWIGLU_KERNEL(name##_double, run_elements<double, function>)
TESSERA_SWIGLU_KERNELS(swiglu, Forward)
TESSERA_SWIGLU_KERNELS(swiglu_backward, Backward)

}  // namespace tessera::ops::cuda
