#include "tessera/ops/pointwise/detail/gradients.h"

#include <complex>

#include "tessera/ops/pointwise/complex.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/reduce/reduce.h"

namespace tessera::ops::detail {

void give(tensor::GradientCall& call, int input, Tensor gradient) {
  if (gradient.shape() != call.input_shape(input)) gradient = sum_to(gradient, call.input_shape(input));
  if (gradient.dtype() != call.input_dtype(input)) gradient = cast(gradient, call.input_dtype(input));
  call.set(input, std::move(gradient));
}

Scalar conj_number(const Scalar& number) {
  return number.kind() == Scalar::Kind::kComplex ? Scalar(std::conj(number.as_complex())) : number;
}
const Tensor& conj_of(const Tensor& x, Tensor&& held) { return is_complex(x.dtype()) ? held = conj(x) : x; }

}  // namespace tessera::ops::detail
