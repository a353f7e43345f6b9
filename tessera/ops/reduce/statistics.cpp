// var, deviation, norm and logsumexp.
#include <cmath>
#include <limits>

#include "tessera/ops/detail/dtype_checks.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/detail/reduce_loops.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/detail/rule_parts.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/tensor/cooperation.h"
#include "tessera/tensor/gradient_moves.h"

namespace tessera::ops {
namespace {

using detail::Finish;
using detail::Fold;
using detail::Map;
using layout::FactorKind;
using layout::FactorRule;
using tensor::Call;
using tensor::GradientCall;
using tensor::IntList;
using tensor::KernelCall;
using tensor::OutputInfo;

template <class A>
void infer_statistic(const Call& call, std::span<OutputInfo> outputs) {
  const auto& a = call.as<A>();
  detail::check_floating(call, call.inputs[0]);
  const auto is_reduced = detail::reduced_dims(call, a.dims);
  outputs[0] = {detail::reduced_shape(call.inputs[0].shape(), is_reduced, a.keepdim), call.inputs[0].dtype()};
}

// Reads all of the reduced dimensions; ranks cooperate along a sharded one.
template <class A>
FactorRule whole_rule(const Call& call) {
  const auto& a = call.as<A>();
  return detail::reduce_rule(call, a.dims, a.keepdim, FactorKind::kCooperate, Reduction::kSum, {});
}

detail::ReduceSpec reduction_of(const Call& call, const IntList& dims, Fold fold, Map map, Finish finish,
                                double parameter) {
  detail::ReduceSpec of{dims, {}};
  of.loop.compute = detail::compute_of(call.inputs[0].dtype());
  of.loop.fold = fold;
  of.loop.map = map;
  of.loop.finish = finish;
  of.loop.parameter = parameter;
  return of;
}

void infer_norm(const Call& call, std::span<OutputInfo> outputs) {
  TESSERA_CHECK_CALL(call, !std::isnan(call.as<PNormAttributes>().p), "p must be a number, got nan");
  infer_statistic<PNormAttributes>(call, outputs);
}

// Orders without a root are plain reductions of the mapped values.
FactorRule rule_of_norm(const Call& call) {
  const auto& a = call.as<PNormAttributes>();
  if (!std::isinf(a.p) && a.p != 0 && a.p != 1) return whole_rule<PNormAttributes>(call);
  const Reduction reduction = !std::isinf(a.p) ? Reduction::kSum : a.p > 0 ? Reduction::kMax : Reduction::kMin;
  return detail::reduce_rule(call, a.dims, a.keepdim, FactorKind::kReduce, reduction, {});
}

// Along sharded dimensions, statistics keep the reduced dimensions with size 1, in f32 (f64 for f64).

using tensor::CooperativeCall;
using Tensors = std::vector<Tensor>;

Tensor wide(const CooperativeCall& call) {
  const Tensor& x = call.local.inputs[0];
  return x.dtype() == DType::kF64 || x.dtype() == DType::kF32 ? x : cast(x, DType::kF32);
}

// Converts a result with kept dimensions to the result of the operator.
template <class A>
Tensors as_result(const CooperativeCall& call, const Tensor& kept) {
  const auto& a = call.local.as<A>();
  const Tensor& x = call.local.inputs[0];
  const Tensor typed = kept.dtype() == x.dtype() ? kept : cast(kept, x.dtype());
  if (a.keepdim) return {typed};
  return {view(typed, detail::reduced_shape(x.shape(), detail::reduced_dims(x.ndim(), a.dims), false).values())};
}

Tensors part_max(const CooperativeCall& call) {
  return {amax(wide(call), call.local.as<ReduceAttributes>().dims, true)};
}
// If all values are -inf, subtracts nothing: the sum is then 0, and its logarithm -inf again.
Tensor finite_max(const CooperativeCall& call) {
  return masked_fill(call.reduced[0], eq(call.reduced[0], -std::numeric_limits<double>::infinity()), 0);
}
Tensors part_sum_exp(const CooperativeCall& call) {
  return {sum(exp(sub(wide(call), finite_max(call))), call.local.as<ReduceAttributes>().dims, true)};
}
Tensors finish_logsumexp(const CooperativeCall& call) {
  return as_result<ReduceAttributes>(call, add(finite_max(call), log(call.reduced[1])));
}

double global_count(const CooperativeCall& call) {
  const Shape& shape = call.global.inputs[0].shape();
  const IntList& dims = call.local.as<VarAttributes>().dims;
  return static_cast<double>(detail::reduced_count(shape, detail::reduced_dims(shape.ndim(), dims)));
}
Tensors part_sum(const CooperativeCall& call) { return {sum(wide(call), call.local.as<VarAttributes>().dims, true)}; }
Tensors part_sum_squared_deviations(const CooperativeCall& call) {
  const Tensor deviation = sub(wide(call), div(call.reduced[0], global_count(call)));
  return {sum(square(deviation), call.local.as<VarAttributes>().dims, true)};
}
Tensors finish_var(const CooperativeCall& call) {
  const double left = global_count(call) - static_cast<double>(call.local.as<VarAttributes>().correction);
  return as_result<VarAttributes>(call, div(call.reduced[1], std::max(left, 0.0)));
}

Tensors part_sum_powers(const CooperativeCall& call) {
  const auto& a = call.local.as<PNormAttributes>();
  return {sum(a.p == 2 ? square(wide(call)) : pow(abs(wide(call)), a.p), a.dims, true)};
}
Tensors finish_norm(const CooperativeCall& call) {
  const double p = call.local.as<PNormAttributes>().p;
  return as_result<PNormAttributes>(call, p == 2 ? sqrt(call.reduced[0]) : pow(call.reduced[0], 1 / p));
}

const tensor::Cooperation kLogsumexpTogether = {{{part_max, {Reduction::kMax}}, {part_sum_exp, {Reduction::kSum}}},
                                                finish_logsumexp};
const tensor::Cooperation kVarTogether = {
    {{part_sum, {Reduction::kSum}}, {part_sum_squared_deviations, {Reduction::kSum}}}, finish_var};
const tensor::Cooperation kNormTogether = {{{part_sum_powers, {Reduction::kSum}}}, finish_norm};

// deviation: a separate operator for the gradient of var, so that ranks exchange only the sums of its rows. It is its
// own transpose.

void infer_deviation(const Call& call, std::span<OutputInfo> outputs) {
  const Tensor& x = call.inputs[0];
  detail::check_floating(call, x);
  detail::reduced_dims(call, call.as<DeviationAttributes>().dims);
  outputs[0] = {x.shape(), x.dtype()};
}

FactorRule rule_of_deviation(const Call& call) {
  const Tensor& x = call.inputs[0];
  const auto is_reduced = detail::reduced_dims(call, call.as<DeviationAttributes>().dims);
  FactorRule rule = detail::empty_rule("deviation", 1, 1, {layout::Linearity::kJoint, layout::Monotony::kNone});
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    detail::pass_dim(rule);
    if (is_reduced[d]) rule.factors.back().kind = FactorKind::kCooperate;
  }
  return rule;
}

Tensors part_sum_of_rows(const CooperativeCall& call) {
  return {sum(wide(call), call.local.as<DeviationAttributes>().dims, true)};
}
Tensors finish_deviation(const CooperativeCall& call) {
  const Shape& shape = call.global.inputs[0].shape();
  const IntList& dims = call.local.as<DeviationAttributes>().dims;
  const std::int64_t count = detail::reduced_count(shape, detail::reduced_dims(shape.ndim(), dims));
  const Tensor deviation = sub(wide(call), div(call.reduced[0], static_cast<double>(count)));
  return {cast(deviation, call.local.inputs[0].dtype())};
}

const tensor::Cooperation kDeviationTogether = {{{part_sum_of_rows, {Reduction::kSum}}}, finish_deviation};

void deviation_gradient(GradientCall& call) {
  call.set(0, deviation(call.grad(), call.as<DeviationAttributes>().dims));
}

// Gradients

template <class A>
Tensor raised(GradientCall& call, const Tensor& result) {
  const auto& a = call.as<A>();
  return detail::with_reduced_dims(result, call.input_shape(0), a.dims, a.keepdim);
}

void var_gradient(GradientCall& call) {
  const auto& a = call.as<VarAttributes>();
  const Shape& shape = call.input_shape(0);
  const std::int64_t count = detail::reduced_count(shape, detail::reduced_dims(shape.ndim(), a.dims));
  const double scale = 2.0 / static_cast<double>(std::max<std::int64_t>(0, count - a.correction));
  call.set(0, mul(raised<VarAttributes>(call, mul(call.grad(), scale)), deviation(call.input(0), a.dims)));
}

// For the orders inf and -inf, equal elements share the gradient evenly. If the norm is 0, the gradient is 0.
void norm_gradient(GradientCall& call) {
  const auto& a = call.as<PNormAttributes>();
  const Tensor& x = call.input(0);
  const Tensor grad = raised<PNormAttributes>(call, call.grad());
  if (a.p == 0) return;  // a count is constant
  if (a.p == 1) return call.set(0, mul(grad, sign(x)));
  const Tensor out = raised<PNormAttributes>(call, call.output());
  if (std::isinf(a.p)) {
    const tensor::GradientMoves moves;  // of the result and of the count of each row
    const Tensor is_other = ne(abs(x), out);
    const Tensor count = sum(logical_not(is_other), a.dims, true, x.dtype());
    return call.set(0, masked_fill(mul(div(grad, count), sign(x)), is_other, 0));
  }
  const Tensor safe = masked_fill(out, eq(out, 0), 1);
  if (a.p == 2) return call.set(0, mul(grad, div(x, safe)));
  call.set(0, mul(grad, mul(sign(x), pow(div(abs(x), safe), a.p - 1))));
}

void logsumexp_gradient(GradientCall& call) {
  const Tensor out = raised<ReduceAttributes>(call, call.output());
  const Tensor shift = masked_fill(out, eq(out, -std::numeric_limits<double>::infinity()), 0);
  call.set(0, mul(raised<ReduceAttributes>(call, call.grad()), exp(sub(call.input(0), shift))));
}

const tensor::Operator kVar = tensor::register_op({.name = "var",
                                                   .inputs = "x",
                                                   .infer = infer_statistic<VarAttributes>,
                                                   .host = detail::reduce_on_host<detail::var_reduction>,
                                                   .gradient = var_gradient,
                                                   .saves = "x",
                                                   .rule = whole_rule<VarAttributes>,
                                                   .cost = detail::reduce_cost,
                                                   .cooperation = &kVarTogether});
const tensor::Operator kDeviation = tensor::register_op({.name = "deviation",
                                                         .inputs = "x",
                                                         .infer = infer_deviation,
                                                         .host = detail::deviation_by_operators,
                                                         .gradient = deviation_gradient,
                                                         .rule = rule_of_deviation,
                                                         .cost = detail::reduce_cost,
                                                         .cooperation = &kDeviationTogether});
const tensor::Operator kNorm = tensor::register_op({.name = "norm",
                                                    .inputs = "x",
                                                    .infer = infer_norm,
                                                    .host = detail::reduce_on_host<detail::norm_reduction>,
                                                    .gradient = norm_gradient,
                                                    .saves = "x, out",
                                                    .rule = rule_of_norm,
                                                    .cost = detail::reduce_cost,
                                                    .cooperation = &kNormTogether});
const tensor::Operator kLogsumexp = tensor::register_op({.name = "logsumexp",
                                                         .inputs = "x",
                                                         .infer = infer_statistic<ReduceAttributes>,
                                                         .host = detail::reduce_on_host<detail::logsumexp_reduction>,
                                                         .gradient = logsumexp_gradient,
                                                         .saves = "x, out",
                                                         .rule = whole_rule<ReduceAttributes>,
                                                         .cost = detail::reduce_cost,
                                                         .cooperation = &kLogsumexpTogether});

}  // namespace

namespace detail {

// Uses f32 for half types: a mean rounded to their precision would add an error to each element.
void deviation_by_operators(const KernelCall& call) {
  const IntList& dims = call.as<DeviationAttributes>().dims;
  const Tensor& x = call.inputs[0];
  const bool is_half = x.dtype() == DType::kF16 || x.dtype() == DType::kBF16;
  if (!is_half) {
    tensor::call_out(tensor::find_op("sub"), call.outputs[0], {x, mean(x, dims, true)});
    return;
  }
  const Tensor wide = cast(x, DType::kF32);
  copy_(call.outputs[0], sub(wide, mean(wide, dims, true)));
}

ReduceSpec var_reduction(const Call& call) {
  const auto& a = call.as<VarAttributes>();
  return reduction_of(call, a.dims, Fold::kSum, Map::kSquaredDeviation, Finish::kVariance,
                      static_cast<double>(a.correction));
}
ReduceSpec norm_reduction(const Call& call) {
  const auto& a = call.as<PNormAttributes>();
  const auto of = [&](Fold fold, Map map, Finish finish) { return reduction_of(call, a.dims, fold, map, finish, a.p); };
  if (std::isinf(a.p)) return of(a.p > 0 ? Fold::kMax : Fold::kMin, Map::kAbs, Finish::kNone);
  if (a.p == 0) return of(Fold::kSum, Map::kNonZero, Finish::kNone);
  if (a.p == 1) return of(Fold::kSum, Map::kAbs, Finish::kNone);
  return of(Fold::kSum, a.p == 2 ? Map::kSquare : Map::kPower, Finish::kRoot);
}
ReduceSpec logsumexp_reduction(const Call& call) {
  return reduction_of(call, call.as<ReduceAttributes>().dims, Fold::kSum, Map::kExp, Finish::kLogSumExp, 0);
}

}  // namespace detail

Tensor var(const Tensor& x, const IntList& dims, std::int64_t correction, bool keepdim) {
  return tensor::call(kVar, {x}, VarAttributes{dims, keepdim, correction});
}
Tensor deviation(const Tensor& x, const IntList& dims) {
  return tensor::call(kDeviation, {x}, DeviationAttributes{dims});
}
Tensor norm(const Tensor& x, double p, const IntList& dims, bool keepdim) {
  return tensor::call(kNorm, {x}, PNormAttributes{p, dims, keepdim});
}
Tensor logsumexp(const Tensor& x, const IntList& dims, bool keepdim) {
  return tensor::call(kLogsumexp, {x}, ReduceAttributes{dims, keepdim});
}

}  // namespace tessera::ops
