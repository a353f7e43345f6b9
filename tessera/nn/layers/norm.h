// Norms over the last dimension, with a weight per element.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/nn/layer.h"

namespace tessera::nn {

/// Options of the norms.
struct NormOptions {
  double eps = 1e-5;             ///< Added to the variance, or to the mean of squares.
  bool bias = true;              ///< Adds a bias; only LayerNorm.
  DimMeaning meaning = "embed";  ///< Meaning of the normalized dimension.
};

/// Brings each row to mean 0 and variance 1, then scales and shifts its elements.
class TESSERA_API LayerNorm : public Layer<LayerNorm> {
 public:
  /// Creates a weight of ones and a bias of zeros.
  explicit LayerNorm(std::int64_t width, const NormOptions& options = {});
  /// Normalizes each row.
  [[nodiscard]] Tensor forward(const Tensor& x) const;

  Parameter weight;  ///< [width]
  Parameter bias;    ///< [width]; an empty handle without a bias

 private:
  double eps_;
};

/// Brings each row to a mean of squares of 1, then scales its elements.
class TESSERA_API RMSNorm : public Layer<RMSNorm> {
 public:
  /// Creates a weight of ones.
  explicit RMSNorm(std::int64_t width, const NormOptions& options = {});
  /// Normalizes each row.
  [[nodiscard]] Tensor forward(const Tensor& x) const;

  Parameter weight;  ///< [width]

 private:
  double eps_;
};

}  // namespace tessera::nn
