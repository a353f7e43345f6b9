// Softmax and its logarithm along one dimension.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Attributes of softmax, log_softmax and their gradients.
struct SoftmaxAttributes {
  std::int64_t dim = -1;  ///< counted from the end if negative
  TESSERA_ATTRIBUTES(dim)
};

/// Returns exp(x) divided by its sum along `dim`.
TESSERA_API Tensor softmax(const Tensor& x, std::int64_t dim);
/// Returns the logarithm of softmax: x - log(sum(exp(x))).
TESSERA_API Tensor log_softmax(const Tensor& x, std::int64_t dim);
/// Returns the gradient of softmax from the gradient of its result and the result.
TESSERA_API Tensor softmax_backward(const Tensor& grad, const Tensor& out, std::int64_t dim);
/// Returns the gradient of log_softmax from the gradient of its result and the result.
TESSERA_API Tensor log_softmax_backward(const Tensor& grad, const Tensor& out, std::int64_t dim);

}  // namespace tessera::ops
