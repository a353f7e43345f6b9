// Norms over the last dimension: each row is brought to mean 0 and variance 1 (layer_norm), or to a mean of squares of
// 1 (rms_norm), then scaled and shifted element by element where parameters are given. Statistics are kept in f32 (f64
// for f64), whatever the dtype.
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

/// (x - mean) / sqrt(variance + eps) * weight + bias.
TESSERA_API Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
/// x / sqrt(mean(x * x) + eps) * weight.
TESSERA_API Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-6);

/// Gradients of a norm; those of parameters are there whether the norm had them or not.
struct NormGradients {
  Tensor x;       ///< of the rows
  Tensor weight;  ///< summed over rows
  Tensor bias;    ///< likewise; layer_norm only
};
/// Gradients of layer_norm, from that of its result, its input and the statistics it kept.
TESSERA_API NormGradients layer_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& weight,
                                              const Tensor& mean, const Tensor& rstd);
/// Likewise of rms_norm.
TESSERA_API NormGradients rms_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& weight,
                                            const Tensor& rstd);

}  // namespace tessera::ops
