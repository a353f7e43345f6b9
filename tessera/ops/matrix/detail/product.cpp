#include "tessera/ops/matrix/detail/product.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/ops/matrix/detail/dense_product.h"
#include "tessera/ops/matrix/detail/product_library.h"
#include "tessera/ops/matrix/detail/small_product.h"

namespace tessera::ops::detail {
namespace {

// c = beta * c, where c is not read if beta is 0.
template <class T>
void scale(const GemmSizes& sizes, T beta, T* c, std::int64_t c_stride) {
  for (std::int64_t i = 0; i < sizes.m; ++i) {
    T* row = c + i * c_stride;
    if (beta == T(0)) {
      std::fill_n(row, sizes.n, T(0));
    } else if (beta != T(1)) {
      for (std::int64_t j = 0; j < sizes.n; ++j) row[j] *= beta;
    }
  }
}

// The real and the imaginary parts of a complex matrix, each dense.
struct Planes {
  Planes(const ProductOperand<std::complex<float>>& of, std::int64_t rows, std::int64_t cols)
      : Planes(of.is_transposed ? cols : rows, of.is_transposed ? rows : cols) {
    is_transposed = of.is_transposed;
    for (std::int64_t i = 0; i < lines; ++i) {
      const std::complex<float>* from = of.data + i * of.stride;
      for (std::int64_t j = 0; j < width; ++j) {
        real[i * width + j] = from[j].real();
        imaginary[i * width + j] = from[j].imag();
      }
    }
  }
  Planes(std::int64_t rows, std::int64_t cols)
      : lines(rows),
        width(cols),
        memory(std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(2 * rows * cols))),
        real(memory.get()),
        imaginary(memory.get() + rows * cols) {}
  [[nodiscard]] ProductOperand<float> part(const float* data) const { return {data, width, is_transposed}; }

  std::int64_t lines, width;
  std::unique_ptr<float[]> memory;
  float* real;
  float* imaginary;
  bool is_transposed = false;
};

}  // namespace

void multiply(const GemmSizes& s, float alpha, const ProductOperand<float>& a, const ProductOperand<float>& b,
              float beta, float* c, std::int64_t c_stride) {
  if (s.m == 0 || s.n == 0) return;
  if (s.k == 0) return scale(s, beta, c, c_stride);
  if (is_small_product(s, b.is_transposed)) return multiply_small(s, alpha, a, b, beta, c, c_stride);
  const ProductCall call(s.k);
  const dnnl_status_t status = dnnl_sgemm(a.is_transposed ? 'T' : 'N', b.is_transposed ? 'T' : 'N', s.m, s.n, s.k,
                                          alpha, a.data, a.stride, b.data, b.stride, beta, c, c_stride);
  TESSERA_CHECK(status == dnnl_success, "product of [", s.m, ", ", s.k, "] and [", s.k, ", ", s.n,
                "]: oneDNN failed with status ", static_cast<int>(status));
}

void multiply(const GemmSizes& s, double alpha, const ProductOperand<double>& a, const ProductOperand<double>& b,
              double beta, double* c, std::int64_t c_stride) {
  scale(s, beta, c, c_stride);
  add_dense_product(s, alpha, a, b, c, c_stride);
}

void multiply(const GemmSizes& s, std::complex<float> alpha, const ProductOperand<std::complex<float>>& a,
              const ProductOperand<std::complex<float>>& b, std::complex<float> beta, std::complex<float>* c,
              std::int64_t c_stride) {
  const Planes left(a, s.m, s.k);
  const Planes right(b, s.k, s.n);
  Planes product(s.m, s.n);
  const auto add = [&](float sign, const float* of_left, const float* of_right, float before, float* to) {
    multiply(s, sign, left.part(of_left), right.part(of_right), before, to, s.n);
  };
  add(1, left.real, right.real, 0, product.real);
  add(-1, left.imaginary, right.imaginary, 1, product.real);
  add(1, left.real, right.imaginary, 0, product.imaginary);
  add(1, left.imaginary, right.real, 1, product.imaginary);
  for (std::int64_t i = 0; i < s.m; ++i) {
    std::complex<float>* row = c + i * c_stride;
    for (std::int64_t j = 0; j < s.n; ++j) {
      const std::complex<float> made = alpha * std::complex(product.real[i * s.n + j], product.imaginary[i * s.n + j]);
      row[j] = beta == std::complex<float>(0) ? made : made + beta * row[j];
    }
  }
}

void multiply(const GemmSizes& s, std::int64_t alpha, const ProductOperand<std::int64_t>& a,
              const ProductOperand<std::int64_t>& b, std::int64_t beta, std::int64_t* c, std::int64_t c_stride) {
  // Unsigned, so that overflow wraps.
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
