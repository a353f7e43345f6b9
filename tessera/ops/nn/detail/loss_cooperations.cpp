#include "tessera/ops/nn/detail/loss_cooperations.h"

#include <limits>

#include "tessera/ops/index/index.h"
#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/tensor/call.h"

namespace tessera::ops::detail {
namespace {

using tensor::CooperativeCall;
using Tensors = std::vector<Tensor>;

// Inputs are logits, targets; for the linear form x, weight [classes, features], targets.
bool is_linear(const CooperativeCall& call) { return call.local.inputs.size() == 3; }
const Tensor& targets_of(const CooperativeCall& call) { return call.local.inputs.back(); }
const CrossEntropyAttributes& how_of(const CooperativeCall& call) { return call.local.as<CrossEntropyAttributes>(); }
bool is_counted(const CooperativeCall& call) { return how_of(call).reduction == "mean" && how_of(call).count == 0; }

// Returns the local statistics of the classes of this rank.
Tensors part_of_rows(const CooperativeCall& call) {
  CrossEntropyAttributes how = how_of(call);
  how.reduction = "none";
  how.classes = is_linear(call) ? call.global.inputs[1].size(0) : call.global.inputs[0].size(-1);
  how.class_map = is_linear(call) ? call.inputs[1].index[0] : call.inputs[0].index.back();
  Tensor outputs[2];
  tensor::call_into({call.local.op, call.local.inputs, how, outputs});
  return {outputs[1], outputs[0]};
}
// If all values are -inf, subtracts nothing: the sum is then 0, and its logarithm -inf again.
Tensor finite_row_max(const CooperativeCall& call) {
  return masked_fill(call.reduced[0], eq(call.reduced[0], -std::numeric_limits<double>::infinity()), 0);
}
Tensors row_sum_exp(const CooperativeCall& call) { return {exp(sub(call.own[0], finite_row_max(call)))}; }

Tensor row_logsumexp(const CooperativeCall& call) { return add(finite_row_max(call), log(call.reduced[2])); }
Tensor row_loss(const CooperativeCall& call) {
  const Tensor is_ignored = eq(targets_of(call), how_of(call).ignore_index);
  return masked_fill(add(row_logsumexp(call), call.reduced[1]), is_ignored, 0);
}

Tensor count(const Tensor& targets, std::int64_t ignore_index, DType dtype) {
  return sum(ne(targets, ignore_index), {}, false, dtype);
}
Tensors sum_and_count(const CooperativeCall& call) {
  if (!is_counted(call)) return {};
  const Tensor loss = sum(row_loss(call));
  return {loss, count(targets_of(call), how_of(call).ignore_index, loss.dtype())};
}

Tensors finish_loss(const CooperativeCall& call) {
  const auto& how = how_of(call);
  if (is_counted(call)) return {div(call.reduced[3], clamp_min(call.reduced[4], 1)), row_logsumexp(call)};
  if (how.reduction == "none") return {row_loss(call), row_logsumexp(call)};
  return {div(sum(row_loss(call)), how.reduction == "mean" ? how.count : 1), row_logsumexp(call)};
}

Tensors part_count(const CooperativeCall& call) {
  const auto& a = call.local.as<CountTargetsAttributes>();
  return {count(call.local.inputs[0], a.ignore_index, a.dtype)};
}
Tensors finish_count(const CooperativeCall& call) { return {clamp_min(call.reduced[0], 1)}; }

tensor::Cooperation loss_together(std::string_view classes) {
  return {{{part_of_rows, {Reduction::kMax, Reduction::kSum}, classes},
           {row_sum_exp, {Reduction::kSum}, classes},
           {sum_and_count, {Reduction::kSum, Reduction::kSum}, "r"}},
          finish_loss};
}

}  // namespace

const tensor::Cooperation kCrossEntropyTogether = loss_together("c");
const tensor::Cooperation kLinearCrossEntropyTogether = loss_together("k");
const tensor::Cooperation kCountTargetsTogether = {{{part_count, {Reduction::kSum}}}, finish_count};

}  // namespace tessera::ops::detail
