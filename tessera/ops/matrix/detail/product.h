// One serial product of dense matrices, by element type: c = alpha * op(a) op(b) + beta * c. Every product of the host
// (linear, matmul, bmm, contract, the loss head) ends here, one call per tile; attention has tiles of its own.
//
//   f32   oneDNN, which generates code for the instructions that the processor has; small products in vector code of
//         ours (small_product.h)
//   c64   four products of f32
//   f64   vector code of ours (dense_product.h)
//   i64   a plain loop
//
// Invariant: the bits of a result depend on the sizes, the strides and the processor, not on threads.
#pragma once

#include <complex>
#include <cstdint>

namespace tessera::ops::detail {

/// A matrix as a product reads it: rows `stride` apart. If `is_transposed`, the memory holds the transposed matrix.
template <class T>
struct ProductOperand {
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

/// Computes c[m, n] = alpha * a b + beta * c on the calling thread. With beta 0, c is not read.
void multiply(const GemmSizes& sizes, float alpha, const ProductOperand<float>& a, const ProductOperand<float>& b,
              float beta, float* c, std::int64_t c_stride);
void multiply(const GemmSizes& sizes, double alpha, const ProductOperand<double>& a, const ProductOperand<double>& b,
              double beta, double* c, std::int64_t c_stride);
void multiply(const GemmSizes& sizes, std::complex<float> alpha, const ProductOperand<std::complex<float>>& a,
              const ProductOperand<std::complex<float>>& b, std::complex<float> beta, std::complex<float>* c,
              std::int64_t c_stride);
void multiply(const GemmSizes& sizes, std::int64_t alpha, const ProductOperand<std::int64_t>& a,
              const ProductOperand<std::int64_t>& b, std::int64_t beta, std::int64_t* c, std::int64_t c_stride);

}  // namespace tessera::ops::detail
