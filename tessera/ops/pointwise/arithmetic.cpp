// Arithmetic of two tensors, and of a tensor and a number: the operators of arithmetic_rows.h.
#include <cmath>
#include <complex>

#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/detail/arithmetic_rows.h"
#include "tessera/ops/pointwise/detail/formulas.h"
#include "tessera/ops/pointwise/detail/table.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/pointwise/arithmetic.cpp"
#include <hwy/foreach_target.h>
// The headers below are included once per target, after foreach_target.h.
#include <hwy/highway.h>
#include "tessera/ops/detail/tile_kernels-inl.h"
#include "tessera/ops/pointwise/detail/formulas-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::HWY_NAMESPACE {

TESSERA_ARITHMETIC_ROWS(TESSERA_FORMULA_2)

const TileKernels* arithmetic_kernels() {
#define TESSERA_ENTRY(name, ...) kernels_of<name##_formula>(),
  static constexpr TileKernels kKernels[] = {TESSERA_ARITHMETIC_ROWS(TESSERA_ENTRY)};
#undef TESSERA_ENTRY
  return kKernels;
}

}  // namespace tessera::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops {
namespace {

using namespace detail;  // NOLINT(google-build-using-namespace): the words of the table
HWY_EXPORT(arithmetic_kernels);

#define TESSERA_INDEX(name, ...) k_##name,
enum Index { TESSERA_ARITHMETIC_ROWS(TESSERA_INDEX) };
#undef TESSERA_INDEX

// Returns 1 where a is greater than b and one half where they are equal: the fraction of the gradient for a in maximum.
Tensor share(const Tensor& a, const Tensor& b) {
  const DType dtype = is_floating(a.dtype()) ? a.dtype() : b.dtype();
  return add(cast(gt(a, b), dtype), mul(cast(eq(a, b), dtype), 0.5));
}

Tensor power_gradient(const Tensor& g, const Tensor& x, const Scalar& s) {
  if (!s.as_bool()) return Tensor();
  const Scalar less = s.kind() == Scalar::Kind::kComplex    ? Scalar(s.as_complex() - 1.0)
                      : s.kind() == Scalar::Kind::kFloating ? Scalar(s.as_double() - 1)
                                                            : Scalar(s.as_int64() - 1);
  return mul(mul(g, conj_of(pow(x, less))), conj_number(s));
}
// Returns the logarithm of a number in the dtype of `like`.
Scalar log_for(const Tensor& like, const Scalar& s) {
  return is_complex(like.dtype()) ? Scalar(std::log(s.as_complex())) : Scalar(std::log(s.as_double()));
}
// The gradient of the exponent is 0 for bases without a logarithm.
Tensor log_or_0(const Tensor& a) { return where(is_complex(a.dtype()) ? ne(a, 0) : gt(a, 0), log(a), 0); }

#define TESSERA_GRADIENT(name, types, vector, element, algebra_a, algebra_b, flops, saves, gradient_a, gradient_b) \
  void name##_gradient_of(tensor::GradientCall& call) {                                                            \
    [[maybe_unused]] const Tensor& g = call.grad();                                                                \
    [[maybe_unused]] const auto a = [&]() -> const Tensor& { return call.input(0); };                              \
    [[maybe_unused]] const auto b = [&]() -> const Tensor& { return call.input(1); };                              \
    [[maybe_unused]] const auto y = [&]() -> const Tensor& { return call.output(); };                              \
    if (call.needs(0)) give_if_any(call, 0, gradient_a);                                                           \
    if (call.needs(1)) give_if_any(call, 1, gradient_b);                                                           \
  }
#define TESSERA_NUMBER_GRADIENT(name, kernel, place, algebra, saves, gradient)        \
  void name##_gradient_of(tensor::GradientCall& call) {                               \
    [[maybe_unused]] const Tensor& g = call.grad();                                   \
    [[maybe_unused]] const Scalar& s = call.as<ScalarAttributes>().value;             \
    [[maybe_unused]] const auto x = [&]() -> const Tensor& { return call.input(0); }; \
    [[maybe_unused]] const auto y = [&]() -> const Tensor& { return call.output(); }; \
    give_if_any(call, 0, gradient);                                                   \
  }
void give_if_any(tensor::GradientCall& call, int input, Tensor gradient) {
  if (gradient) give(call, input, std::move(gradient));
}
TESSERA_ARITHMETIC_ROWS(TESSERA_GRADIENT)
TESSERA_ARITHMETIC_NUMBER_ROWS(TESSERA_NUMBER_GRADIENT)

namespace rows {
#define TESSERA_OPERATOR(row_name, kinds, vector, element, of_a, of_b, flops_each, saved, ...)                       \
  constexpr PointwiseRow row_name##_row = {.name = #row_name,                                                        \
                                           .inputs = "a, b",                                                         \
                                           .types = (kinds),                                                         \
                                           .kernels = []() -> const TileKernels& {                                   \
                                             return HWY_DYNAMIC_DISPATCH(arithmetic_kernels)()[Index::k_##row_name]; \
                                           },                                                                        \
                                           .algebra = {of_a, of_b},                                                  \
                                           .gradient = row_name##_gradient_of,                                       \
                                           .saves = saved,                                                           \
                                           .flops = flops_each};                                                     \
  const tensor::Operator row_name = register_row<row_name##_row>();
#define TESSERA_NUMBER_OPERATOR(row_name, kernel, place, of_x, saved, ...)     \
  constexpr PointwiseRow row_name##_row = {.name = #row_name,                  \
                                           .function = #kernel,                \
                                           .inputs = "x",                      \
                                           .types = kernel##_row.types,        \
                                           .kernels = kernel##_row.kernels,    \
                                           .algebra = {of_x},                  \
                                           .gradient = row_name##_gradient_of, \
                                           .saves = saved,                     \
                                           .numbers = Numbers::place,          \
                                           .flops = kernel##_row.flops};       \
  const tensor::Operator row_name = register_row<row_name##_row>();
TESSERA_ARITHMETIC_ROWS(TESSERA_OPERATOR)
TESSERA_ARITHMETIC_NUMBER_ROWS(TESSERA_NUMBER_OPERATOR)
}  // namespace rows

}  // namespace

#define TESSERA_FORMS(name, ...) TESSERA_POINTWISE_FORMS_2(name)
TESSERA_ARITHMETIC_ROWS(TESSERA_FORMS)

#define TESSERA_NUMBER_FORMS(name)                                                       \
  Tensor name(const Tensor& a, const Scalar& b) {                                        \
    return tensor::call(rows::name##_scalar, {a}, ScalarAttributes{b});                  \
  }                                                                                      \
  void name##_(const Tensor& a, const Scalar& b) {                                       \
    tensor::call_out(rows::name##_scalar, a, {a}, ScalarAttributes{b});                  \
  }                                                                                      \
  Tensor name(const Tensor& a, const Scalar& b, const ResultOptions& options) {          \
    return tensor::call_out(rows::name##_scalar, options.out, {a}, ScalarAttributes{b}); \
  }
TESSERA_NUMBER_FORMS(add)
TESSERA_NUMBER_FORMS(sub)
TESSERA_NUMBER_FORMS(mul)
TESSERA_NUMBER_FORMS(div)
TESSERA_NUMBER_FORMS(pow)
TESSERA_NUMBER_FORMS(floor_divide)
TESSERA_NUMBER_FORMS(remainder)

Tensor sub(const Scalar& a, const Tensor& b) { return tensor::call(rows::rsub_scalar, {b}, ScalarAttributes{a}); }
Tensor div(const Scalar& a, const Tensor& b) { return tensor::call(rows::rdiv_scalar, {b}, ScalarAttributes{a}); }
Tensor pow(const Scalar& a, const Tensor& b) { return tensor::call(rows::rpow_scalar, {b}, ScalarAttributes{a}); }

}  // namespace tessera::ops
#endif  // HWY_ONCE
