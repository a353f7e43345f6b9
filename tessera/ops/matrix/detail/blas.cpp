#include "tessera/ops/matrix/detail/blas.h"

#include <cblas.h>

namespace tessera::ops::detail {
namespace {

CBLAS_TRANSPOSE transpose_of(bool is_transposed) { return is_transposed ? CblasTrans : CblasNoTrans; }
int narrow(std::int64_t value) { return static_cast<int>(value); }

}  // namespace

void blas_gemm(const GemmSizes& s, float alpha, const BlasMatrix<float>& a, const BlasMatrix<float>& b, float beta,
               float* c, std::int64_t c_stride) {
  cblas_sgemm(CblasRowMajor, transpose_of(a.is_transposed), transpose_of(b.is_transposed), narrow(s.m), narrow(s.n),
              narrow(s.k), alpha, a.data, narrow(a.stride), b.data, narrow(b.stride), beta, c, narrow(c_stride));
}

void blas_gemm(const GemmSizes& s, double alpha, const BlasMatrix<double>& a, const BlasMatrix<double>& b, double beta,
               double* c, std::int64_t c_stride) {
  cblas_dgemm(CblasRowMajor, transpose_of(a.is_transposed), transpose_of(b.is_transposed), narrow(s.m), narrow(s.n),
              narrow(s.k), alpha, a.data, narrow(a.stride), b.data, narrow(b.stride), beta, c, narrow(c_stride));
}

void blas_gemm(const GemmSizes& s, std::complex<float> alpha, const BlasMatrix<std::complex<float>>& a,
               const BlasMatrix<std::complex<float>>& b, std::complex<float> beta, std::complex<float>* c,
               std::int64_t c_stride) {
  cblas_cgemm(CblasRowMajor, transpose_of(a.is_transposed), transpose_of(b.is_transposed), narrow(s.m), narrow(s.n),
              narrow(s.k), &alpha, a.data, narrow(a.stride), b.data, narrow(b.stride), &beta, c, narrow(c_stride));
}

void blas_gemm(const GemmSizes& s, std::int64_t alpha, const BlasMatrix<std::int64_t>& a,
               const BlasMatrix<std::int64_t>& b, std::int64_t beta, std::int64_t* c, std::int64_t c_stride) {
  // Unsigned, so that what overflows wraps.
  using Word = std::uint64_t;
  const std::int64_t a_row = a.is_transposed ? 1 : a.stride;
  const std::int64_t a_col = a.is_transposed ? a.stride : 1;
  const std::int64_t b_row = b.is_transposed ? 1 : b.stride;
  const std::int64_t b_col = b.is_transposed ? b.stride : 1;
  for (std::int64_t i = 0; i < s.m; ++i) {
    std::int64_t* row = c + i * c_stride;
    for (std::int64_t j = 0; j < s.n; ++j) {
      row[j] = beta == 0 ? 0 : static_cast<std::int64_t>(static_cast<Word>(beta) * static_cast<Word>(row[j]));
    }
    for (std::int64_t x = 0; x < s.k; ++x) {
      const Word left = static_cast<Word>(alpha) * static_cast<Word>(a.data[i * a_row + x * a_col]);
      for (std::int64_t j = 0; j < s.n; ++j) {
        row[j] = static_cast<std::int64_t>(static_cast<Word>(row[j]) +
                                           left * static_cast<Word>(b.data[x * b_row + j * b_col]));
      }
    }
  }
}

}  // namespace tessera::ops::detail
