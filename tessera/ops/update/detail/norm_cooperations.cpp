#include "tessera/ops/update/detail/norm_cooperations.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"
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

// Returns zero on the device of the shards of this rank.
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

Tensor powered(const Tensor& norms, double p) {
  if (p == 1 || std::isinf(p)) return norms;
  return p == 2 ? square(norms) : pow(norms, p);
}
Tensor root(const Tensor& powers, double p) {
  if (p == 1 || std::isinf(p)) return powers;
  return p == 2 ? sqrt(powers) : pow(powers, 1 / p);
}

// The sums of the shards of this rank, per tensor.
Tensor part_norms(const CooperativeCall& call, double p) {
  const Tensors norms = foreach_norm(counted_parts(call), p);
  Tensors all;
  Tensor none;
  std::size_t next = 0;
  for (const Tensor& part : call.local.inputs) {
    if (!part && !none) none = zero(call, norms.empty() ? DType::kF64 : norms[0].dtype());
    all.push_back(part ? norms[next++] : none);
  }
  return powered(joined(std::move(all)), p);
}
// The sum of all shards of this rank.
Tensor part_norm(const CooperativeCall& call, double p) {
  const Tensors parts = counted_parts(call);
  if (parts.empty()) return zero(call, DType::kF64);
  return powered(cast(grad_norm(parts, 1, p).norm, DType::kF64), p);
}

// A call needs one of two phases: sums, or for an infinite p the largest.
template <class A, Tensor (*kPart)(const CooperativeCall&, double), bool kIsLargest>
Tensors statistics(const CooperativeCall& call) {
  const double p = call.local.as<A>().p;
  return std::isinf(p) == kIsLargest ? Tensors{kPart(call, p)} : Tensors{};
}
template <class A, Tensor (*kPart)(const CooperativeCall&, double)>
std::vector<tensor::CooperativePhase> phases() {
  return {{statistics<A, kPart, false>, {Reduction::kSum}}, {statistics<A, kPart, true>, {Reduction::kMax}}};
}

Tensors finish_norms(const CooperativeCall& call) {
  const Tensor norms = root(call.reduced[0], call.local.as<ForeachNormAttributes>().p);
  const Tensor narrow = cast(norms, DType::kF32);
  Tensors out;
  for (std::size_t i = 0; i < call.global.inputs.size(); ++i) {
    const bool is_wide = statistics_dtype(call.global.inputs[i].dtype()) == DType::kF64;
    out.push_back(select(is_wide ? norms : narrow, 0, static_cast<std::int64_t>(i)));
  }
  return out;
}

Tensors finish_grad_norm(const CooperativeCall& call) {
  const auto& how = call.local.as<GradNormAttributes>();
  const Tensor whole = root(call.reduced[0], how.p);
  const GradNorm found = grad_norm({&whole, 1}, how.max_norm);  // of one number, whatever p
  const DType dtype = statistics_dtype(call.global.inputs[0].dtype());
  return {cast(found.norm, dtype), cast(found.factor, dtype)};
}

}  // namespace

const tensor::Cooperation kForeachNormTogether = {phases<ForeachNormAttributes, part_norms>(), finish_norms};
const tensor::Cooperation kGradNormTogether = {phases<GradNormAttributes, part_norm>(), finish_grad_norm};

}  // namespace tessera::ops::detail
