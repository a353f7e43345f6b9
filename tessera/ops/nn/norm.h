// Norms over the last dimension. layer_norm brings each row to mean 0 and variance 1, rms_norm to a mean of squares of
// 1. Optional parameters then scale and shift each element. Statistics are f32 (f64 for f64) for all dtypes.
#pragma once

#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Attributes of the norms and their gradients.
struct NormalizationAttributes {
  double eps = 1e-5;  ///< added to the variance, or to the mean of squares
  TESSERA_ATTRIBUTES(eps)
};

/// Returns (x - mean) / sqrt(variance + eps) * weight + bias.
TESSERA_API Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
/// Returns x / sqrt(mean(x * x) + eps) * weight.
TESSERA_API Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-6);

/// Gradients of a norm. Gradients of the parameters are set even if the norm had no parameters.
struct NormGradients {
  Tensor x;       ///< gradient of the rows
  Tensor weight;  ///< gradient of the weight, summed over rows
  Tensor bias;    ///< gradient of the bias, summed over rows; only layer_norm sets it
};
/// Computes the gradients of layer_norm from the gradient of its result, its input and its statistics.
TESSERA_API NormGradients layer_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& weight,
                                              const Tensor& mean, const Tensor& rstd);
/// Computes the gradients of rms_norm from the gradient of its result, its input and its statistic.
TESSERA_API NormGradients rms_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& weight,
                                            const Tensor& rstd);

}  // namespace tessera::ops
