// The inner loops of row-wise operators: functions on contiguous rows of float or double, compiled for each vector
// width and selected for the processor. The ends of rows run the same vector code on a padded copy.
//
// Sums use four vectors, which are added at the end in a fixed order: the bits depend only on the row.
#pragma once

#include <cstdint>

namespace tessera::ops::detail {

/// Mean and 1 / standard deviation of a row.
template <class T>
struct NormStatistics {
  T mean = 0;
  T rstd = 0;
};

/// Parameters of a norm; null if absent.
template <class T>
struct NormParameters {
  const T* weight = nullptr;
  const T* bias = nullptr;
};

/// Operands of the gradient of a norm of one row, and the sums for the parameters.
template <class T>
struct NormGradientRow {
  const T* grad;
  const T* x;
  T* dx;
  T* dweight;  // added to
  T* dbias;    // added to; null if absent
};

/// Rows whose pairs of elements (a, b) become (a cos - b sin, b cos + a sin). The inverse negates the sine.
template <class T>
struct RotatedRows {
  const T* x = nullptr;
  T* out = nullptr;
  const T* angles = nullptr;    // of a row: the cosines of its pairs, then the sines
  std::int64_t x_step = 0;      // from row to row
  std::int64_t out_step = 0;    // from row to row
  std::int64_t angle_step = 0;  // from row to row
  std::int64_t count = 1;
  std::int64_t length = 0;  // of a row; elements after the pairs are copied
  std::int64_t pairs = 0;
  bool is_interleaved = false;  // pairs are adjacent; otherwise elements i and i + pairs
  bool is_inverse = false;
};

/// The kernels for one vector width.
template <class T>
struct RowKernels {
  /// Returns the greatest value; -infinity for an empty row.
  T (*max)(const T* x, std::int64_t n);
  /// Computes y = exp(x - shift), for x <= shift. Returns their sum.
  T (*exp_sum)(const T* x, T shift, T* y, std::int64_t n);
  /// Returns only the sum of exp_sum.
  T (*sum_exp)(const T* x, T shift, std::int64_t n);
  /// y = x * by.
  void (*scale)(const T* x, T by, T* y, std::int64_t n);
  /// y = x + by.
  void (*shift)(const T* x, T by, T* y, std::int64_t n);
  /// Sum of x.
  T (*sum)(const T* x, std::int64_t n);
  /// Sum of x * y.
  T (*dot)(const T* x, const T* y, std::int64_t n);
  /// y += by * x.
  void (*add_scaled)(const T* x, T by, T* y, std::int64_t n);
  /// dx = y * (grad - dot(grad, y)).
  void (*softmax_gradient)(const T* grad, const T* y, T* dx, std::int64_t n);
  /// Same as softmax_gradient, but bypasses the caches if dx is aligned to vectors. Other threads see them after
  /// hwy::FlushStream().
  void (*softmax_gradient_streamed)(const T* grad, const T* y, T* dx, std::int64_t n);
  /// dx = grad - exp(y) * sum(grad).
  void (*log_softmax_gradient)(const T* grad, const T* y, T* dx, std::int64_t n);
  /// dx = by * exp(x - shift) - every.
  void (*cross_entropy_gradient)(const T* x, T shift, T by, T every, T* dx, std::int64_t n);
  /// ds = p * (dp - delta).
  void (*attention_gradient)(const T* p, const T* dp, T delta, T* ds, std::int64_t n);
  /// y = (x - mean) * rstd * weight + bias.
  NormStatistics<T> (*layer_norm)(const T* x, const NormParameters<T>& with, double eps, T* y, std::int64_t n);
  /// See NormGradientRow.
  void (*layer_norm_gradient)(const NormGradientRow<T>& row, const T* weight, const NormStatistics<T>& statistics,
                              std::int64_t n);
  /// Computes y = x * rstd * weight with rstd = 1 / sqrt(mean of squares + eps). Returns rstd.
  T (*rms_norm)(const T* x, const T* weight, double eps, T* y, std::int64_t n);
  /// See NormGradientRow.
  void (*rms_norm_gradient)(const NormGradientRow<T>& row, const T* weight, T rstd, std::int64_t n);
  /// See RotatedRows.
  void (*rotate)(const RotatedRows<T>& rows);
};

/// Returns the instructions that the kernels for this processor use, by Highway's name: "AVX2".
const char* row_kernels_target();
/// Returns the kernels for this processor.
template <class T>
const RowKernels<T>& row_kernels();
template <>
const RowKernels<float>& row_kernels<float>();
template <>
const RowKernels<double>& row_kernels<double>();

}  // namespace tessera::ops::detail
