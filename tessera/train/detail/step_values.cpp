#include "tessera/train/detail/step_values.h"

#include "tessera/memory/label.h"
#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/convert.h"

namespace tessera::train::detail {

Tensor skip_flag(const StepValues& values, const Tensor& most) {
  const memory::Label label("optimizer");
  const Tensor& norm = values.norm.norm;
  const Tensor is_finite = ops::logical_and(ops::isfinite(values.loss), ops::isfinite(norm));
  return ops::logical_not(ops::logical_and(is_finite, ops::le(norm, most)));
}

void StepReadings::read(const StepValues& values, const Tensor& skip) const {
  const memory::Label label("optimizer");
  loss_.read(ops::cast(values.loss, DType::kF64));
  norm_.read(ops::cast(values.norm.norm, DType::kF64));
  skip_.read(skip);
}

}  // namespace tessera::train::detail
