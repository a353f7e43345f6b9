#include "tessera/train/detail/step_values.h"

#include <cmath>

#include "tessera/memory/label.h"
#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/shape/arrange.h"

namespace tessera::train::detail {

Tensor skip_flag(const StepValues& values, const Tensor& most) {
  const memory::Label label("optimizer");
  const Tensor& norm = values.norm.norm;
  const Tensor is_finite = ops::logical_and(ops::isfinite(values.loss), ops::isfinite(norm));
  return ops::logical_not(ops::logical_and(is_finite, ops::le(norm, most)));
}

Tensor next_bound(const Tensor& skip, const Tensor& most) {
  const memory::Label label("optimizer");
  return ops::where(skip, -INFINITY, most);
}

Tensor outcome_of(const StepValues& values, const Tensor& skip) {
  const memory::Label label("optimizer");
  return ops::stack(
      {ops::cast(values.loss, DType::kF64), ops::cast(values.norm.norm, DType::kF64), ops::cast(skip, DType::kF64)});
}

}  // namespace tessera::train::detail
