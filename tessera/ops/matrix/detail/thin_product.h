// Products of few rows with a matrix that lies by columns, x W^T of generation: each element of W is read once and used
// once per row, so that memory limits the speed. These kernels read W in place, in order, and convert bf16 on the way;
// the call of oneDNN packs W first.
#pragma once

#include <cstdint>

#include "tessera/base/dtype.h"

namespace tessera::ops::detail {

/// Largest number of rows of a thin product.
inline constexpr std::int64_t kThinRows = 16;

/// Operands of c[m, n] = a[m, k] b[n, k]^T. Rows of each are contiguous.
template <class T>
struct ThinProduct {
  std::int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  std::int64_t a_stride = 0;
  const T* b = nullptr;
  std::int64_t b_stride = 0;
  float* c = nullptr;
  std::int64_t c_stride = 0;
  bool is_added = false;  ///< to what c holds
};

/// Returns true if multiply_thin() computes a product of these sizes faster than the library. Depends on the sizes
/// alone, because the bits of a result depend on it.
inline bool is_thin_product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return m >= 1 && m <= kThinRows && n >= 32 && k >= 64;
}

/// Computes the product on the calling thread. Each element is one sum over k in lanes, in an order that depends on k
/// and the processor alone: not on m, n or the position of the element.
void multiply_thin(const ThinProduct<float>& product);
/// Computes the product of bf16 operands, with sums in f32.
void multiply_thin(const ThinProduct<bf16>& product);

}  // namespace tessera::ops::detail
