// What gradients of pointwise operators share.
#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/op_def.h"

namespace tessera::ops::detail {

/// Gives `gradient`, of the shape and dtype of the result, as the gradient of an input: summed over the dimensions
/// along which it was broadcast, and in its dtype.
TESSERA_API void give(tensor::GradientCall& call, int input, Tensor gradient);
/// The complex conjugate; a real tensor itself.
TESSERA_API Tensor conj_of(const Tensor& x);

}  // namespace tessera::ops::detail
