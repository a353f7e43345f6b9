// Operators of three or more tensors, and operators that select: the operators of selection_rows.h.
#include <complex>

#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/detail/formulas.h"
#include "tessera/ops/pointwise/detail/selection_rows.h"
#include "tessera/ops/pointwise/detail/table.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/pointwise/selection.cpp"
#include <hwy/foreach_target.h>
// The headers below are included once per target, after foreach_target.h.
#include <hwy/highway.h>
#include "tessera/ops/detail/tile_kernels-inl.h"
#include "tessera/ops/pointwise/detail/formulas-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::HWY_NAMESPACE {
using namespace detail;  // NOLINT(google-build-using-namespace): the words of the table

TESSERA_SELECTION_ROWS_3(TESSERA_FORMULA_3)
TESSERA_SELECTION_ROWS_4(TESSERA_FORMULA_4)

const TileKernels* selection_kernels() {
#define TESSERA_ENTRY(name, ...) kernels_of<name##_formula>(),
  static constexpr TileKernels kKernels[] = {TESSERA_SELECTION_ROWS_3(TESSERA_ENTRY)
                                                 TESSERA_SELECTION_ROWS_4(TESSERA_ENTRY)};
#undef TESSERA_ENTRY
  return kKernels;
}

}  // namespace tessera::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops {
namespace {

using namespace detail;  // NOLINT(google-build-using-namespace): the words of rows
HWY_EXPORT(selection_kernels);

#define TESSERA_INDEX(name, ...) k_##name,
enum Index { TESSERA_SELECTION_ROWS_3(TESSERA_INDEX) TESSERA_SELECTION_ROWS_4(TESSERA_INDEX) };
#undef TESSERA_INDEX

void where_gradient(tensor::GradientCall& call) {
  if (call.needs(1)) give(call, 1, where(call.input(0), call.grad(), 0));
  if (call.inputs() > 2 && call.needs(2)) give(call, 2, where(call.input(0), 0, call.grad()));
}
void clamp_gradient(tensor::GradientCall& call) {
  const auto& range = call.as<ClampAttributes>();
  const Tensor& x = call.input(0);
  give(call, 0, where(logical_and(ge(x, range.low), le(x, range.high)), call.grad(), 0));
}
void lerp_gradient(tensor::GradientCall& call) {
  const Tensor& g = call.grad();
  const Tensor& weight = call.input(2);
  if (call.needs(0)) give(call, 0, mul(g, conj_of(sub(1, weight))));
  if (call.needs(1)) give(call, 1, mul(g, conj_of(weight)));
  if (call.needs(2)) give(call, 2, mul(g, conj_of(sub(call.input(1), call.input(0)))));
}
void lerp_scalar_gradient(tensor::GradientCall& call) {
  const Scalar weight = conj_number(call.as<ScalarAttributes>().value);
  const Scalar rest =
      weight.kind() == Scalar::Kind::kComplex ? Scalar(1.0 - weight.as_complex()) : Scalar(1 - weight.as_double());
  if (call.needs(0)) give(call, 0, mul(call.grad(), rest));
  if (call.needs(1)) give(call, 1, mul(call.grad(), weight));
}
void addcmul_gradient(tensor::GradientCall& call) {
  const Scalar value = conj_number(call.as<ScalarAttributes>().value);
  if (call.needs(0)) give(call, 0, call.grad());
  if (call.needs(1)) give(call, 1, mul(mul(call.grad(), conj_of(call.input(2))), value));
  if (call.needs(2)) give(call, 2, mul(mul(call.grad(), conj_of(call.input(1))), value));
}
void addcdiv_gradient(tensor::GradientCall& call) {
  const Scalar value = conj_number(call.as<ScalarAttributes>().value);
  Tensor held;
  const Tensor& a = call.input(1);
  const Tensor& b = conj_of(call.input(2), std::move(held));
  if (call.needs(0)) give(call, 0, call.grad());
  if (call.needs(1)) give(call, 1, mul(div(call.grad(), b), value));
  if (call.needs(2)) give(call, 2, neg(mul(div(mul(call.grad(), conj_of(a)), square(b)), value)));
}

#define TESSERA_TYPES(name, types, ...) constexpr unsigned name##_types = (types);
TESSERA_SELECTION_ROWS_3(TESSERA_TYPES)
TESSERA_SELECTION_ROWS_4(TESSERA_TYPES)
#undef TESSERA_TYPES

namespace rows {
#define TESSERA_OPERATOR(row_name, formula, names, place, row_algebra, row_flops, saved, gradient_of_row)              \
  constexpr PointwiseRow row_name##_row = {                                                                            \
      .name = #row_name,                                                                                               \
      .function = #formula,                                                                                            \
      .inputs = names,                                                                                                 \
      .types = formula##_types,                                                                                        \
      .kernels = []() -> const TileKernels& { return HWY_DYNAMIC_DISPATCH(selection_kernels)()[Index::k_##formula]; }, \
      .algebra = row_algebra,                                                                                          \
      .gradient = gradient_of_row,                                                                                     \
      .saves = saved,                                                                                                  \
      .numbers = Numbers::place,                                                                                       \
      .is_linear_with_0 = Index::k_##formula == Index::k_where && Numbers::place == Numbers::kLast,                    \
      .flops = row_flops};                                                                                             \
  const tensor::Operator row_name = register_row<row_name##_row>();
TESSERA_SELECTION_OPERATORS(TESSERA_OPERATOR)
#undef TESSERA_OPERATOR
}  // namespace rows

// Returns an absent bound, of the kind of the other bound so that it does not raise the dtype.
Scalar no_bound(const Scalar& other, bool is_low) {
  if (other.kind() == Scalar::Kind::kFloating) {
    return is_low ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  }
  return is_low ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b) { return tensor::call(rows::where, {mask, a, b}); }
Tensor where(const Tensor& mask, const Tensor& a, const Scalar& b) {
  return tensor::call(rows::where_scalar, {mask, a}, ScalarAttributes{b});
}
Tensor where(const Tensor& mask, const Scalar& a, const Tensor& b) { return where(logical_not(mask), b, a); }

Tensor clamp(const Tensor& x, const Scalar& low, const Scalar& high) {
  return tensor::call(rows::clamp, {x}, ClampAttributes{low, high});
}
void clamp_(const Tensor& x, const Scalar& low, const Scalar& high) {
  tensor::call_out(rows::clamp, x, {x}, ClampAttributes{low, high});
}
Tensor clamp_min(const Tensor& x, const Scalar& low) { return clamp(x, low, no_bound(low, false)); }
Tensor clamp_max(const Tensor& x, const Scalar& high) { return clamp(x, no_bound(high, true), high); }

Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) { return tensor::call(rows::lerp, {a, b, weight}); }
Tensor lerp(const Tensor& a, const Tensor& b, const Scalar& weight) {
  return tensor::call(rows::lerp_scalar, {a, b}, ScalarAttributes{weight});
}
void lerp_(const Tensor& a, const Tensor& b, const Scalar& weight) {
  tensor::call_out(rows::lerp_scalar, a, {a, b}, ScalarAttributes{weight});
}

Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value) {
  return tensor::call(rows::addcmul, {x, a, b}, ScalarAttributes{value});
}
void addcmul_(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value) {
  tensor::call_out(rows::addcmul, x, {x, a, b}, ScalarAttributes{value});
}
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value) {
  return tensor::call(rows::addcdiv, {x, a, b}, ScalarAttributes{value});
}
void addcdiv_(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value) {
  tensor::call_out(rows::addcdiv, x, {x, a, b}, ScalarAttributes{value});
}

}  // namespace tessera::ops
#endif  // HWY_ONCE
