// Kernels of arithmetic_rows.h. Each operation rounds once, as on the host: no product is fused with a sum.
#include "tessera/ops/pointwise/cuda/arithmetic_rows.h"
#include "tessera/ops/pointwise/cuda/pointwise.cuh"
#include "tessera/ops/pointwise/detail/integers.h"

namespace tessera::ops::cuda {
namespace {

// Integer overflow wraps.
template <class T>
__device__ T sum_of(T a, T b) {
  return wrap_add(a, b);
}
template <class T>
__device__ T difference_of(T a, T b) {
  return wrap_sub(a, b);
}
template <class T>
__device__ T product_of(T a, T b) {
  return wrap_mul(a, b);
}
__device__ Complex<float> sum_of(Complex<float> a, Complex<float> b) { return {a.re + b.re, a.im + b.im}; }
__device__ Complex<float> difference_of(Complex<float> a, Complex<float> b) { return {a.re - b.re, a.im - b.im}; }
__device__ Complex<float> product_of(Complex<float> a, Complex<float> b) {
  return {__fsub_rn(__fmul_rn(a.re, b.re), __fmul_rn(a.im, b.im)),
          __fadd_rn(__fmul_rn(a.re, b.im), __fmul_rn(a.im, b.re))};
}

TESSERA_CUDA_ARITHMETIC_ROWS(TESSERA_CUDA_KERNELS)

}  // namespace
}  // namespace tessera::ops::cuda
