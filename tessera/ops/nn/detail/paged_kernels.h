// The inner loops of paged attention on one page: scores of some queries, and sums of values. Both read each row of the
// page once per query, in an order that depends on the sizes alone.
#pragma once

#include <cstdint>

namespace tessera::ops::detail {

/// Rows of a page: `count` of them, `width` elements each, `stride` elements apart.
template <class T>
struct PageRows {
  const T* data = nullptr;
  std::int64_t stride = 0;
  std::int64_t count = 0;
  std::int64_t width = 0;
};

/// The kernels for one vector width.
template <class T>
struct PagedKernels {
  /// scores[i * score_stride + j] = q[i] . key[j] for `queries` contiguous rows of q.
  void (*scores)(const T* q, std::int64_t queries, const PageRows<T>& keys, T* scores, std::int64_t score_stride);
  /// out[i] += sum over j of p[i * p_stride + j] * value[j].
  void (*add_values)(const T* p, std::int64_t p_stride, std::int64_t queries, const PageRows<T>& values, T* out);
};

/// Returns the kernels for this processor.
template <class T>
const PagedKernels<T>& paged_kernels();
template <>
const PagedKernels<float>& paged_kernels<float>();
template <>
const PagedKernels<double>& paged_kernels<double>();

}  // namespace tessera::ops::detail
