// What gradients of pointwise operators share.
#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/op_def.h"

namespace tessera::ops::detail {

/// Gives `gradient`, of the shape and dtype of the result, as the gradient of an input: summed over the dimensions
/// along which it was broadcast, and in its dtype.
TESSERA_API void give(tensor::GradientCall& call, int input, Tensor gradient);
/// The complex conjugate, kept in `held`; a real tensor itself. For an argument of a call: `held` lives as long as the
/// whole expression.
TESSERA_API const Tensor& conj_of(const Tensor& x, Tensor&& held = Tensor());

/// The complex conjugate of a number.
TESSERA_API Scalar conj_number(const Scalar& number);

}  // namespace tessera::ops::detail
