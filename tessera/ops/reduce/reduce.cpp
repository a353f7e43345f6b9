// sum, mean, prod, amax, amin, any and all. Each passes its fold, map and finish to detail/reduction.h.
#include "tessera/ops/reduce/reduce.h"

#include "tessera/ops/detail/dtype_checks.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/detail/reduce_loops.h"
#include "tessera/ops/shape/shape.h"
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
using tensor::OutputInfo;

bool is_counted(DType dtype) { return is_integral(dtype) || dtype == DType::kBool; }

template <class A>
Shape shape_left(const Call& call) {
  const auto& a = call.as<A>();
  return detail::reduced_shape(call.inputs[0].shape(), detail::reduced_dims(call, a.dims), a.keepdim);
}

template <class A>
FactorRule rule_by(const Call& call, Reduction reduction, layout::Algebra algebra) {
  const auto& a = call.as<A>();
  return detail::reduce_rule(call, a.dims, a.keepdim, FactorKind::kReduce, reduction, algebra);
}

constexpr layout::Algebra kLinear = {layout::Linearity::kJoint, layout::Monotony::kNone};
constexpr layout::Algebra kMonotone = {layout::Linearity::kNone, layout::Monotony::kUp};

// sum

void infer_sum(const Call& call, std::span<OutputInfo> outputs) {
  const auto& a = call.as<SumAttributes>();
  detail::check_computable(call, call.inputs[0]);
  TESSERA_CHECK_CALL(call, !detail::is_storage_only(a.dtype),
                     "dtype of the sum must be one that operators compute in, got ", a.dtype, "; cast the result");
  TESSERA_CHECK_CALL(call, is_complex(a.dtype) || !is_complex(call.inputs[0].dtype()),
                     "complex numbers require a complex dtype, got ", a.dtype, "; take real() or imag() first");
  outputs[0] = {shape_left<SumAttributes>(call), a.dtype};
}

FactorRule rule_of_sum(const Call& call) {
  if (call.as<SumAttributes>().dtype == DType::kBool) {
    return rule_by<SumAttributes>(call, Reduction::kMax, kMonotone);
  }
  const bool is_exact =
      call.inputs[0].dtype() == call.as<SumAttributes>().dtype || !is_counted(call.as<SumAttributes>().dtype);
  return rule_by<SumAttributes>(call, Reduction::kSum, is_exact ? kLinear : layout::Algebra{});
}

// mean

void infer_mean(const Call& call, std::span<OutputInfo> outputs) {
  const Tensor& x = call.inputs[0];
  detail::check_computable(call, x);
  TESSERA_CHECK_CALL(call, !is_counted(x.dtype()), "x must be floating-point or complex, got ", x.dtype(),
                     "; cast it first");
  outputs[0] = {shape_left<MeanAttributes>(call), x.dtype()};
}

std::int64_t mean_count(const Call& call) {
  const auto& a = call.as<MeanAttributes>();
  if (a.count >= 0) return a.count;
  return detail::reduced_count(call.inputs[0].shape(), detail::reduced_dims(call, a.dims));
}

FactorRule rule_of_mean(const Call& call) { return rule_by<MeanAttributes>(call, Reduction::kSum, kLinear); }

tensor::Attributes localize_mean(const tensor::LocalizeCall& call) {
  MeanAttributes local = call.global.as<MeanAttributes>();
  local.count = mean_count(call.global);
  return tensor::Attributes(local);
}

// prod

void infer_prod(const Call& call, std::span<OutputInfo> outputs) {
  const DType dtype = call.inputs[0].dtype();
  detail::check_computable(call, call.inputs[0]);
  TESSERA_CHECK_CALL(call, !is_complex(dtype), "dtype must be real, got ", dtype);
  outputs[0] = {shape_left<ReduceAttributes>(call), is_counted(dtype) ? DType::kI64 : dtype};
}

FactorRule rule_of_prod(const Call& call) { return rule_by<ReduceAttributes>(call, Reduction::kProd, {}); }

// amax and amin

void infer_extreme(const Call& call, std::span<OutputInfo> outputs) {
  const DType dtype = call.inputs[0].dtype();
  detail::check_computable(call, call.inputs[0]);
  TESSERA_CHECK_CALL(call, !is_complex(dtype), "dtype must be real, got ", dtype, "; take abs() or real() first");
  outputs[0] = {shape_left<ReduceAttributes>(call), dtype};
}

FactorRule rule_of_amax(const Call& call) { return rule_by<ReduceAttributes>(call, Reduction::kMax, kMonotone); }
FactorRule rule_of_amin(const Call& call) { return rule_by<ReduceAttributes>(call, Reduction::kMin, kMonotone); }

// any and all

void infer_truth(const Call& call, std::span<OutputInfo> outputs) {
  detail::check_computable(call, call.inputs[0]);
  TESSERA_CHECK_CALL(call, !is_complex(call.inputs[0].dtype()), "dtype must be real, got ", call.inputs[0].dtype(),
                     "; compare with ne() first");
  outputs[0] = {shape_left<ReduceAttributes>(call), DType::kBool};
}

// For bool, both are monotone. For numbers, a maximum does not determine whether an element is zero.
FactorRule rule_of_any(const Call& call) {
  const bool is_bool = call.inputs[0].dtype() == DType::kBool;
  return rule_by<ReduceAttributes>(call, Reduction::kMax, is_bool ? kMonotone : layout::Algebra{});
}
FactorRule rule_of_all(const Call& call) {
  const bool is_bool = call.inputs[0].dtype() == DType::kBool;
  return rule_by<ReduceAttributes>(call, Reduction::kMin, is_bool ? kMonotone : layout::Algebra{});
}

// Gradients

// Returns the gradient of the result in a shape that broadcasts with the input.
template <class A>
Tensor raised(GradientCall& call, const Tensor& result) {
  const auto& a = call.as<A>();
  return detail::with_reduced_dims(result, call.input_shape(0), a.dims, a.keepdim);
}

void sum_gradient(GradientCall& call) {
  const Tensor grad = cast(call.grad(), call.input_dtype(0));
  call.set(0, expand(raised<SumAttributes>(call, grad), call.input_shape(0).values()));
}

void mean_gradient(GradientCall& call) {
  const Shape& shape = call.input_shape(0);
  const auto is_reduced = detail::reduced_dims(shape.ndim(), call.as<MeanAttributes>().dims);
  const Tensor grad = div(call.grad(), static_cast<double>(detail::reduced_count(shape, is_reduced)));
  call.set(0, expand(raised<MeanAttributes>(call, grad), shape.values()));
}

// The product of the others: the product of all nonzero elements divided by the element; 0 if another element is zero.
void prod_gradient(GradientCall& call) {
  const tensor::GradientMoves moves;  // of the products and of the zeros of each row
  const auto& a = call.as<ReduceAttributes>();
  const Tensor& x = call.input(0);
  const Tensor is_zero = eq(x, 0);
  const Tensor safe = masked_fill(x, is_zero, 1);
  const Tensor product = prod(safe, a.dims, true);
  const Tensor other_zeros = sub(sum(is_zero, a.dims, true), cast(is_zero, DType::kI64));
  const Tensor others = div(mul(raised<ReduceAttributes>(call, call.grad()), product), safe);
  call.set(0, masked_fill(others, ne(other_zeros, 0), 0));
}

// Equal elements share the gradient evenly.
void extreme_gradient(GradientCall& call) {
  const tensor::GradientMoves moves;  // of the result and of the count of each row
  const auto& a = call.as<ReduceAttributes>();
  const Shape& shape = call.input_shape(0);
  const Tensor is_other = ne(call.input(0), raised<ReduceAttributes>(call, call.output()));
  const Tensor count = sum(logical_not(is_other), a.dims, true, call.input_dtype(0));
  const Tensor share = div(raised<ReduceAttributes>(call, call.grad()), count);
  call.set(0, masked_fill(expand(share, shape.values()), is_other, 0));
}

const tensor::Operator kSum = tensor::register_op({.name = "sum",
                                                   .inputs = "x",
                                                   .infer = infer_sum,
                                                   .host = detail::reduce_on_host<detail::sum_reduction>,
                                                   .gradient = sum_gradient,
                                                   .rule = rule_of_sum,
                                                   .cost = detail::reduce_cost});
const tensor::Operator kMean = tensor::register_op({.name = "mean",
                                                    .inputs = "x",
                                                    .infer = infer_mean,
                                                    .host = detail::reduce_on_host<detail::mean_reduction>,
                                                    .gradient = mean_gradient,
                                                    .rule = rule_of_mean,
                                                    .localize = localize_mean,
                                                    .cost = detail::reduce_cost});
const tensor::Operator kProd = tensor::register_op({.name = "prod",
                                                    .inputs = "x",
                                                    .infer = infer_prod,
                                                    .host = detail::reduce_on_host<detail::prod_reduction>,
                                                    .gradient = prod_gradient,
                                                    .saves = "x",
                                                    .rule = rule_of_prod,
                                                    .cost = detail::reduce_cost});
const tensor::Operator kAmax = tensor::register_op({.name = "amax",
                                                    .inputs = "x",
                                                    .infer = infer_extreme,
                                                    .host = detail::reduce_on_host<detail::amax_reduction>,
                                                    .gradient = extreme_gradient,
                                                    .saves = "x, out",
                                                    .rule = rule_of_amax,
                                                    .cost = detail::reduce_cost});
const tensor::Operator kAmin = tensor::register_op({.name = "amin",
                                                    .inputs = "x",
                                                    .infer = infer_extreme,
                                                    .host = detail::reduce_on_host<detail::amin_reduction>,
                                                    .gradient = extreme_gradient,
                                                    .saves = "x, out",
                                                    .rule = rule_of_amin,
                                                    .cost = detail::reduce_cost});
const tensor::Operator kAny = tensor::register_op({.name = "any",
                                                   .inputs = "x",
                                                   .infer = infer_truth,
                                                   .host = detail::reduce_on_host<detail::any_reduction>,
                                                   .rule = rule_of_any,
                                                   .cost = detail::reduce_cost});
const tensor::Operator kAll = tensor::register_op({.name = "all",
                                                   .inputs = "x",
                                                   .infer = infer_truth,
                                                   .host = detail::reduce_on_host<detail::all_reduction>,
                                                   .rule = rule_of_all,
                                                   .cost = detail::reduce_cost});

detail::ReduceSpec fold_of(const Call& call, Fold fold, Map map) {
  detail::ReduceSpec of{call.as<ReduceAttributes>().dims, {}};
  of.loop.compute = detail::compute_of(call.inputs[0].dtype());
  of.loop.fold = fold;
  of.loop.map = map;
  return of;
}

}  // namespace

namespace detail {

ReduceSpec sum_reduction(const Call& call) {
  const auto& a = call.as<SumAttributes>();
  ReduceSpec of{a.dims, {}};
  of.loop.compute = compute_of(a.dtype);
  if (a.dtype == DType::kBool) {  // the sum of truth values is their logical or
    of.loop.fold = Fold::kMax;
    of.loop.map = Map::kNonZero;
  }
  return of;
}
ReduceSpec mean_reduction(const Call& call) {
  ReduceSpec of{call.as<MeanAttributes>().dims, {}};
  of.loop.compute = compute_of(call.inputs[0].dtype());
  of.loop.finish = Finish::kDivide;
  of.loop.parameter = static_cast<double>(mean_count(call));
  return of;
}
ReduceSpec prod_reduction(const Call& call) { return fold_of(call, Fold::kProd, Map::kNone); }
ReduceSpec amax_reduction(const Call& call) { return fold_of(call, Fold::kMax, Map::kNone); }
ReduceSpec amin_reduction(const Call& call) { return fold_of(call, Fold::kMin, Map::kNone); }
ReduceSpec any_reduction(const Call& call) { return fold_of(call, Fold::kMax, Map::kNonZero); }
ReduceSpec all_reduction(const Call& call) { return fold_of(call, Fold::kMin, Map::kNonZero); }

}  // namespace detail

Tensor sum(const Tensor& x, const IntList& dims, bool keepdim, std::optional<DType> dtype) {
  const DType result = dtype.value_or(is_counted(x.dtype()) ? DType::kI64 : x.dtype());
  return tensor::call(kSum, {x}, SumAttributes{dims, keepdim, result});
}
Tensor mean(const Tensor& x, const IntList& dims, bool keepdim) {
  return tensor::call(kMean, {x}, MeanAttributes{dims, keepdim, -1});
}
Tensor prod(const Tensor& x, const IntList& dims, bool keepdim) {
  return tensor::call(kProd, {x}, ReduceAttributes{dims, keepdim});
}
Tensor amax(const Tensor& x, const IntList& dims, bool keepdim) {
  return tensor::call(kAmax, {x}, ReduceAttributes{dims, keepdim});
}
Tensor amin(const Tensor& x, const IntList& dims, bool keepdim) {
  return tensor::call(kAmin, {x}, ReduceAttributes{dims, keepdim});
}
Tensor any(const Tensor& x, const IntList& dims, bool keepdim) {
  return tensor::call(kAny, {x}, ReduceAttributes{dims, keepdim});
}
Tensor all(const Tensor& x, const IntList& dims, bool keepdim) {
  return tensor::call(kAll, {x}, ReduceAttributes{dims, keepdim});
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const std::size_t lead = x.shape().size() - std::min(x.shape().size(), shape.size());
  IntList dims;
  bool fits = x.shape().size() >= shape.size();
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    const std::int64_t to = d < lead ? 1 : shape[d - lead];
    if (d < lead || to != x.shape()[d]) dims.push_back(static_cast<std::int64_t>(d));
    fits = fits && (to == 1 || to == x.shape()[d]);
  }
  TESSERA_CHECK(fits, "sum_to: shape must broadcast to ", describe(x), ", got ", shape);
  const Tensor summed = dims.empty() ? x : sum(x, dims, true, x.dtype());
  if (lead == 0) return summed;
  IntList front;
  for (std::size_t d = 0; d < lead; ++d) front.push_back(static_cast<std::int64_t>(d));
  return squeeze(summed, front);
}

}  // namespace tessera::ops
