// Dropout as a module: active in training mode.
#pragma once

#include "tessera/base/export.h"
#include "tessera/nn/layer.h"

namespace tessera::nn {

/// Drops each element with a given probability in training mode, and scales the others. Otherwise the identity.
class TESSERA_API Dropout : public Layer<Dropout> {
 public:
  /// Throws InvalidArgument unless the probability is in [0, 1).
  explicit Dropout(double probability);
  /// Applies dropout.
  [[nodiscard]] Tensor forward(const Tensor& x) const;

 private:
  double probability_;
};

}  // namespace tessera::nn
