#include "tessera/ops/update/detail/norm_cooperations.h"

#include <algorithm>
#include <vector>

#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/update/detail/lists.h"
#include "tessera/ops/update/update.h"

namespace tessera::ops::detail {
namespace {

using tensor::CooperativeCall;
using Tensors = std::vector<Tensor>;

Tensors counted_parts(const CooperativeCall& call) {
  Tensors parts;
  for (const Tensor& part : call.local.inputs) {
    if (part) parts.push_back(part);
  }
  return parts;
}

// Zero, where this rank's parts lie.
Tensor zero(const CooperativeCall& call, DType dtype) {
  const auto held = std::ranges::find_if(call.global.inputs, [](const Tensor& x) { return bool(x.local()); });
  return zeros({}, {.dtype = dtype, .device = held->device()});
}

// One vector of numbers that may have different dtypes.
Tensor joined(Tensors numbers) {
  const DType first = numbers[0].dtype();
  if (!std::ranges::all_of(numbers, [first](const Tensor& x) { return x.dtype() == first; })) {
    for (Tensor& number : numbers) number = cast(number, DType::kF64);
  }
  return cast(stack(numbers), DType::kF64);
}

Tensors part_squares(const CooperativeCall& call) {
  const Tensors parts = counted_parts(call);
  const Tensors norms = foreach_norm(parts);
  Tensors all;
  Tensor none;
  std::size_t next = 0;
  for (const Tensor& part : call.local.inputs) {
    if (!part && !none) none = zero(call, norms.empty() ? DType::kF64 : norms[0].dtype());
    all.push_back(part ? norms[next++] : none);
  }
  return {square(joined(std::move(all)))};
}

Tensors finish_norms(const CooperativeCall& call) {
  const Tensor norms = sqrt(call.reduced[0]);
  const Tensor narrow = cast(norms, DType::kF32);
  Tensors out;
  for (std::size_t i = 0; i < call.global.inputs.size(); ++i) {
    const bool is_wide = statistics_dtype(call.global.inputs[i].dtype()) == DType::kF64;
    out.push_back(select(is_wide ? norms : narrow, 0, static_cast<std::int64_t>(i)));
  }
  return out;
}

Tensors part_square(const CooperativeCall& call) {
  const Tensors parts = counted_parts(call);
  if (parts.empty()) return {zero(call, DType::kF64)};
  return {square(cast(grad_norm(parts, 1).norm, DType::kF64))};
}

Tensors finish_grad_norm(const CooperativeCall& call) {
  const Tensor whole = sqrt(call.reduced[0]);
  const GradNorm found = grad_norm({&whole, 1}, call.local.as<GradNormAttributes>().max_norm);
  const DType dtype = statistics_dtype(call.global.inputs[0].dtype());
  return {cast(found.norm, dtype), cast(found.factor, dtype)};
}

}  // namespace

const tensor::Cooperation kForeachNormTogether = {{{part_squares, {layout::Reduction::kSum}}}, finish_norms};
const tensor::Cooperation kGradNormTogether = {{{part_square, {layout::Reduction::kSum}}}, finish_grad_norm};

}  // namespace tessera::ops::detail
