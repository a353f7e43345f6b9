#include "tessera/ops/nn/detail/row_cooperations.h"

#include "tessera/ops/nn/detail/rows.h"
#include "tessera/ops/nn/norm.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/shape.h"

namespace tessera::ops::detail {
namespace {

using tensor::CooperativeCall;
using tensor::IntList;
using Tensors = std::vector<Tensor>;

// Returns an input in the dtype of statistics.
Tensor wide(const CooperativeCall& call, std::size_t input) {
  const Tensor& x = call.local.inputs[input];
  const DType dtype = statistics_dtype(x.dtype());
  return x.dtype() == dtype ? x : cast(x, dtype);
}
// Returns a result in the dtype of an input.
Tensor narrow(const CooperativeCall& call, const Tensor& result, std::size_t input = 0) {
  const DType dtype = call.local.inputs[input].dtype();
  return result.dtype() == dtype ? result : cast(result, dtype);
}

// Softmax: statistics keep the dimension of the rows with size 1, so that they broadcast.

IntList dim_of(const CooperativeCall& call) { return {call.local.as<SoftmaxAttributes>().dim}; }

Tensors row_max(const CooperativeCall& call) { return {amax(wide(call, 0), dim_of(call), true)}; }
Tensors row_sum_exp(const CooperativeCall& call) {
  return {sum(exp(sub(wide(call, 0), call.reduced[0])), dim_of(call), true)};
}
Tensors finish_softmax(const CooperativeCall& call) {
  return {narrow(call, div(exp(sub(wide(call, 0), call.reduced[0])), call.reduced[1]))};
}
Tensors finish_log_softmax(const CooperativeCall& call) {
  return {narrow(call, sub(wide(call, 0), add(call.reduced[0], log(call.reduced[1]))))};
}

Tensors row_sum_products(const CooperativeCall& call) {
  return {sum(mul(wide(call, 0), wide(call, 1)), dim_of(call), true)};
}
Tensors finish_softmax_backward(const CooperativeCall& call) {
  return {narrow(call, mul(sub(wide(call, 0), call.reduced[0]), wide(call, 1)))};
}
Tensors row_sum_gradient(const CooperativeCall& call) { return {sum(wide(call, 0), dim_of(call), true)}; }
Tensors finish_log_softmax_backward(const CooperativeCall& call) {
  return {narrow(call, sub(wide(call, 0), mul(exp(wide(call, 1)), call.reduced[0])))};
}

// Norms: over the last dimension.

double row_length(const CooperativeCall& call, std::size_t x) {
  return static_cast<double>(call.global.inputs[x].size(-1));
}
double eps_of(const CooperativeCall& call) { return call.local.as<NormalizationAttributes>().eps; }
Tensor last_sum(const Tensor& x) { return sum(x, IntList{-1}, true); }
Tensor without_last(const Tensor& x) { return squeeze(x, IntList{-1}); }
// Returns a parameter, or an empty handle if it is absent.
Tensor times_weight(const CooperativeCall& call, const Tensor& x, std::size_t weight) {
  return call.local.inputs[weight] ? mul(x, wide(call, weight)) : x;
}
// Returns the sum over all rows of this rank, with the shape of one row.
Tensor over_rows(const Tensor& x) { return sum_to(x, Shape({x.size(-1)})); }

Tensors row_sum(const CooperativeCall& call) { return {last_sum(wide(call, 0))}; }
Tensor deviation(const CooperativeCall& call) { return sub(wide(call, 0), div(call.reduced[0], row_length(call, 0))); }
Tensors row_sum_squared_deviations(const CooperativeCall& call) { return {last_sum(square(deviation(call)))}; }
Tensors finish_layer_norm(const CooperativeCall& call) {
  const Tensor rstd = rsqrt(add(div(call.reduced[1], row_length(call, 0)), eps_of(call)));
  Tensor out = times_weight(call, mul(deviation(call), rstd), 1);
  if (call.local.inputs[2]) out = add(out, wide(call, 2));
  return {narrow(call, out), without_last(div(call.reduced[0], row_length(call, 0))), without_last(rstd)};
}

Tensors row_sum_squares(const CooperativeCall& call) { return {last_sum(square(wide(call, 0)))}; }
Tensors finish_rms_norm(const CooperativeCall& call) {
  const Tensor rstd = rsqrt(add(div(call.reduced[0], row_length(call, 0)), eps_of(call)));
  return {narrow(call, times_weight(call, mul(wide(call, 0), rstd), 1)), without_last(rstd)};
}

// Backward: inputs grad, x, weight?, mean (layer_norm only), rstd.
Tensor normalized(const CooperativeCall& call) {
  const std::size_t count = call.local.inputs.size();
  const Tensor x = wide(call, 1);
  const Tensor centred = count == 5 ? sub(x, unsqueeze(call.local.inputs[3], -1)) : x;
  return mul(centred, unsqueeze(call.local.inputs[count - 1], -1));
}
Tensors row_sums_of_gradient(const CooperativeCall& call) {
  const Tensor scaled = times_weight(call, wide(call, 0), 2);
  Tensors sums = {last_sum(mul(scaled, normalized(call)))};
  if (call.local.inputs.size() == 5) sums.push_back(last_sum(scaled));
  return sums;
}
Tensors finish_norm_backward(const CooperativeCall& call) {
  const bool is_layer_norm = call.local.inputs.size() == 5;
  const double n = row_length(call, 1);
  const Tensor grad = wide(call, 0);
  const Tensor hat = normalized(call);
  Tensor inner = sub(times_weight(call, grad, 2), mul(hat, div(call.reduced[0], n)));
  if (is_layer_norm) inner = sub(inner, div(call.reduced[1], n));
  Tensors out = {narrow(call, mul(inner, unsqueeze(call.local.inputs.back(), -1))),
                 narrow(call, over_rows(mul(grad, hat)))};
  if (is_layer_norm) out.push_back(narrow(call, over_rows(grad)));
  return out;
}

}  // namespace

const tensor::Cooperation kSoftmaxTogether = {{{row_max, {Reduction::kMax}}, {row_sum_exp, {Reduction::kSum}}},
                                              finish_softmax};
const tensor::Cooperation kLogSoftmaxTogether = {{{row_max, {Reduction::kMax}}, {row_sum_exp, {Reduction::kSum}}},
                                                 finish_log_softmax};
const tensor::Cooperation kSoftmaxBackwardTogether = {{{row_sum_products, {Reduction::kSum}}}, finish_softmax_backward};
const tensor::Cooperation kLogSoftmaxBackwardTogether = {{{row_sum_gradient, {Reduction::kSum}}},
                                                         finish_log_softmax_backward};
const tensor::Cooperation kLayerNormTogether = {
    {{row_sum, {Reduction::kSum}}, {row_sum_squared_deviations, {Reduction::kSum}}}, finish_layer_norm};
const tensor::Cooperation kRmsNormTogether = {{{row_sum_squares, {Reduction::kSum}}}, finish_rms_norm};
const tensor::Cooperation kLayerNormBackwardTogether = {{{row_sums_of_gradient, {Reduction::kSum, Reduction::kSum}}},
                                                        finish_norm_backward};
const tensor::Cooperation kRmsNormBackwardTogether = {{{row_sums_of_gradient, {Reduction::kSum}}},
                                                      finish_norm_backward};

}  // namespace tessera::ops::detail
