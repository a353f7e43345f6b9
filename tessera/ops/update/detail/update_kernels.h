// The inner loops of updates on contiguous chunks of float or double, compiled for each vector width. Results do not
// depend on the boundaries of chunks.
#pragma once

#include <cstdint>

namespace tessera::ops::detail {

/// A step of AdamW, with all values that do not depend on the element.
template <class T>
struct AdamWStep {
  T beta1, beta2, eps;
  T keep;        // 1 - learning rate * weight decay
  T clip;        // of gradients
  T rate;        // learning rate / (1 - beta1^step)
  T root_scale;  // 1 / sqrt(1 - beta2^step)
};
/// Operands of a row. Results may overwrite inputs.
template <class T>
struct AdamWRow {
  const T *param, *grad, *first, *second;
  T *new_param, *new_first, *new_second;
};

/// A step of gradient descent.
template <class T>
struct SgdStep {
  T momentum, weight_decay, clip, learning_rate;
  bool is_nesterov;
};
/// Operands of a row; `momentum` may be null.
template <class T>
struct SgdRow {
  const T *param, *grad, *momentum;
  T *new_param, *new_momentum;
};

/// A step of Lion, with all values that do not depend on the element.
template <class T>
struct LionStep {
  T beta1, beta2;
  T keep;  // 1 - learning rate * weight decay
  T clip;  // of gradients
  T learning_rate;
};
/// Operands of a row. Results may overwrite inputs.
template <class T>
struct LionRow {
  const T *param, *grad, *mean;
  T *new_param, *new_mean;
};

/// The kernels for one vector width.
template <class T>
struct UpdateKernels {
  void (*adamw)(const AdamWRow<T>& row, const AdamWStep<T>& step, std::int64_t n);
  void (*sgd)(const SgdRow<T>& row, const SgdStep<T>& step, std::int64_t n);
  void (*lion)(const LionRow<T>& row, const LionStep<T>& step, std::int64_t n);
  /// out = a + by * b.
  void (*add)(const T* a, const T* b, T by, T* out, std::int64_t n);
  /// out = a * by.
  void (*mul)(const T* a, T by, T* out, std::int64_t n);
};

/// Returns the kernels for this processor.
template <class T>
const UpdateKernels<T>& update_kernels();
template <>
const UpdateKernels<float>& update_kernels<float>();
template <>
const UpdateKernels<double>& update_kernels<double>();

}  // namespace tessera::ops::detail
