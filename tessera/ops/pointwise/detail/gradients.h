// Common code of the gradients of pointwise operators.
#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/op_def.h"

namespace tessera::ops::detail {

/// Sets the gradient of an input to `gradient`, which has the shape and dtype of the result: sums it over the
/// dimensions along which the input was broadcast and converts it to the dtype of the input.
TESSERA_API void give(tensor::GradientCall& call, int input, Tensor gradient);
/// Returns the complex conjugate, stored in `held`, or x itself if it is real. For use as an argument of a call: `held`
/// lives until the end of the full expression.
TESSERA_API const Tensor& conj_of(const Tensor& x, Tensor&& held = Tensor());

/// Returns the complex conjugate of a number.
TESSERA_API Scalar conj_number(const Scalar& number);

}  // namespace tessera::ops::detail
