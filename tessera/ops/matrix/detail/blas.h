// One serial call of BLAS, by element type: c = alpha * op(a) op(b) + beta * c, rows one after the other. Integers have
// a plain loop of the same form. Which bits come out depends on the sizes, the strides and the processor alone.
#pragma once

#include <complex>
#include <cstdint>

namespace tessera::ops::detail {

/// A matrix as BLAS takes it: rows `stride` apart; transposed: it is read by columns.
template <class T>
struct BlasMatrix {
  const T* data = nullptr;
  std::int64_t stride = 1;
  bool is_transposed = false;
};

/// Sizes of a product: [m, k] times [k, n].
struct GemmSizes {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

/// c[m, n] = alpha * a b + beta * c. With beta 0 what c holds is not read.
void blas_gemm(const GemmSizes& sizes, float alpha, const BlasMatrix<float>& a, const BlasMatrix<float>& b, float beta,
               float* c, std::int64_t c_stride);
void blas_gemm(const GemmSizes& sizes, double alpha, const BlasMatrix<double>& a, const BlasMatrix<double>& b,
               double beta, double* c, std::int64_t c_stride);
void blas_gemm(const GemmSizes& sizes, std::complex<float> alpha, const BlasMatrix<std::complex<float>>& a,
               const BlasMatrix<std::complex<float>>& b, std::complex<float> beta, std::complex<float>* c,
               std::int64_t c_stride);
void blas_gemm(const GemmSizes& sizes, std::int64_t alpha, const BlasMatrix<std::int64_t>& a,
               const BlasMatrix<std::int64_t>& b, std::int64_t beta, std::int64_t* c, std::int64_t c_stride);

}  // namespace tessera::ops::detail
