// Arithmetic of two tensors, and of a tensor and a number, which runs the same kernel. The columns of a row of two
// tensors are: name, types, algebra of a and of b, flops, the function of vectors a and b, the function of elements a
// and b (for integers and complex numbers, if the types include them), the tensors that the gradient reads, and the
// gradients of a and b, from the gradient g of the result, the inputs a() and b() and the result y().
// The columns of a row with a number are: name, kernel, types, position of the number, algebra, the tensors that the
// gradient reads, and the gradient from x(), y() and the number s.
#include <cmath>
#include <complex>

#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/detail/integers.h"
#include "tessera/ops/pointwise/detail/table.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/pointwise/arithmetic.cpp"
#include <hwy/foreach_target.h>
// The headers below are included once per target, after foreach_target.h.
#include <hwy/highway.h>
#include "tessera/ops/detail/tile_kernels-inl.h"
#include "tessera/ops/detail/vector_math-inl.h"

// clang-format off
#define TESSERA_ROWS(ROW)                                                                                            \
  ROW(add, kAll, kLinearRising, kLinearRising, 1, hn::Add(a, b), wrap_add(a, b), "", g, g)                           \
  ROW(sub, kAll & ~kBools, kLinearRising, kLinearFalling, 1, hn::Sub(a, b), wrap_sub(a, b), "", g, neg(g))           \
  ROW(mul, kAll, kMulti, kMulti, 1, hn::Mul(a, b), wrap_mul(a, b), "a, b", mul(g, conj_of(b())), mul(g, conj_of(a()))) \
  ROW(div, kFunctions | kComplex, kMulti, kOpaque, 1, hn::Div(a, b), a / b, "b, out", div(g, conj_of(b())),          \
      neg(mul(g, conj_of(div(y(), b())))))                                                                           \
  ROW(pow, kFloats | kIntegers | kComplex, kOpaque, kOpaque, 50, pow_of(d, a, b), power_of(a, b), "a, b, out",       \
      mul(g, conj_of(mul(b(), pow(a(), sub(b(), 1))))), mul(g, conj_of(mul(y(), log_or_0(a())))))                    \
  ROW(minimum, kFloats | kIntegers | kBools, kRising, kRising, 1, minimum_of(d, a, b), (a < b ? a : b), "a, b",      \
      mul(g, share(b(), a())), mul(g, share(a(), b())))                                                              \
  ROW(maximum, kFloats | kIntegers | kBools, kRising, kRising, 1, maximum_of(d, a, b), (a > b ? a : b), "a, b",      \
      mul(g, share(a(), b())), mul(g, share(b(), a())))                                                              \
  ROW(floor_divide, kFloats | kIntegers, kOpaque, kOpaque, 4, floor_divide_of(d, a, b), floor_quotient(a, b), "",    \
      Tensor(), Tensor())                                                                                            \
  ROW(remainder, kFloats | kIntegers, kOpaque, kOpaque, 4, remainder_of(d, a, b), floor_remainder(a, b), "a, b",     \
      g, neg(mul(g, floor_divide(a(), b()))))
#define TESSERA_NUMBER_ROWS(ROW)                                                                                     \
  ROW(add_scalar, add, kAll, kLast, kRising, "", g)                                                                  \
  ROW(sub_scalar, sub, kAll & ~kBools, kLast, kRising, "", g)                                                        \
  ROW(rsub_scalar, sub, kAll & ~kBools, kFirst, kFalling, "", neg(g))                                                \
  ROW(mul_scalar, mul, kAll, kLast, kLinear, "", mul(g, conj_number(s)))                                             \
  ROW(div_scalar, div, kFunctions | kComplex, kLast, kLinear, "", div(g, conj_number(s)))                            \
  ROW(rdiv_scalar, div, kFunctions | kComplex, kFirst, kOpaque, "x, out", neg(mul(g, conj_of(div(y(), x())))))       \
  ROW(pow_scalar, pow, kFloats | kIntegers | kComplex, kLast, kOpaque, "x", power_gradient(g, x(), s))               \
  ROW(rpow_scalar, pow, kFloats | kIntegers | kComplex, kFirst, kOpaque, "out",                                      \
      mul(mul(g, conj_of(y())), conj_number(log_for(g, s))))                                                         \
  ROW(floor_divide_scalar, floor_divide, kFloats | kIntegers, kLast, kOpaque, "", Tensor())                          \
  ROW(remainder_scalar, remainder, kFloats | kIntegers, kLast, kOpaque, "", g)
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::HWY_NAMESPACE {
using namespace detail;  // NOLINT(google-build-using-namespace): the words of the table

template <class D, class V>
HWY_INLINE V pow_of(D d, V a, V b) {
  const V two = number(d, 2);
  if (hn::AllTrue(d, hn::Eq(b, two))) return hn::Mul(a, a);
  return lane_by_lane(d, a, b, [](auto x, auto y) { return std::pow(x, y); });
}
// For integers and complex numbers. Any value to the power of 0 is 1.
template <class T>
T power_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return integer_power(a, b);
  } else {
    return b == T(0) ? T(1) : std::pow(a, b);
  }
}
// Exact, unlike the quotient of floating numbers.
template <class T>
T float_remainder(T a, T b) {
  const T rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
template <class D, class V>
HWY_INLINE V remainder_of(D d, V a, V b) {
  return lane_by_lane(d, a, b, [](auto x, auto y) { return float_remainder(x, y); });
}
template <class D, class V>
HWY_INLINE V floor_divide_of(D d, V a, V b) {
  return lane_by_lane(d, a, b, [](auto x, auto y) {
    if (y == 0) return x / y;
    // The quotient towards zero is an integer up to rounding.
    const auto rest = std::fmod(x, y);
    const auto quotient = (x - rest) / y - (rest != 0 && (rest < 0) != (y < 0) ? 1 : 0);
    return std::isfinite(quotient) ? std::round(quotient) : std::floor(x / y);
  });
}

#define TESSERA_KERNEL(name, types, algebra_a, algebra_b, flops, vector, element, ...) \
  TESSERA_POINTWISE_KERNEL_2(name, vector, element)
TESSERA_ROWS(TESSERA_KERNEL)
#undef TESSERA_KERNEL

const TileKernels* arithmetic_kernels() {
#define TESSERA_ENTRY(name, types, ...) kernels_of<name##_kernel, 2, (types)>(),
  static constexpr TileKernels kKernels[] = {TESSERA_ROWS(TESSERA_ENTRY)};
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
enum Index { TESSERA_ROWS(TESSERA_INDEX) };
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

#define TESSERA_GRADIENT(name, types, algebra_a, algebra_b, flops, vector, element, saves, gradient_a, gradient_b) \
  void name##_gradient_of(tensor::GradientCall& call) {                                                            \
    [[maybe_unused]] const Tensor& g = call.grad();                                                                \
    [[maybe_unused]] const auto a = [&]() -> const Tensor& { return call.input(0); };                              \
    [[maybe_unused]] const auto b = [&]() -> const Tensor& { return call.input(1); };                              \
    [[maybe_unused]] const auto y = [&]() -> const Tensor& { return call.output(); };                              \
    if (call.needs(0)) give_if_any(call, 0, gradient_a);                                                           \
    if (call.needs(1)) give_if_any(call, 1, gradient_b);                                                           \
  }
#define TESSERA_NUMBER_GRADIENT(name, kernel, types, place, algebra, saves, gradient) \
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
TESSERA_ROWS(TESSERA_GRADIENT)
TESSERA_NUMBER_ROWS(TESSERA_NUMBER_GRADIENT)

namespace rows {
#define TESSERA_OPERATOR(row_name, kinds, of_a, of_b, flops_each, vector, element, saved, ...)                       \
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
#define TESSERA_NUMBER_OPERATOR(row_name, kernel, kinds, place, of_x, saved, ...) \
  constexpr PointwiseRow row_name##_row = {.name = #row_name,                     \
                                           .function = #kernel,                   \
                                           .inputs = "x",                         \
                                           .types = (kinds),                      \
                                           .kernels = kernel##_row.kernels,       \
                                           .algebra = {of_x},                     \
                                           .gradient = row_name##_gradient_of,    \
                                           .saves = saved,                        \
                                           .numbers = Numbers::place,             \
                                           .flops = kernel##_row.flops};          \
  const tensor::Operator row_name = register_row<row_name##_row>();
TESSERA_ROWS(TESSERA_OPERATOR)
TESSERA_NUMBER_ROWS(TESSERA_NUMBER_OPERATOR)
}  // namespace rows

}  // namespace

#define TESSERA_FORMS(name, ...) TESSERA_POINTWISE_FORMS_2(name)
TESSERA_ROWS(TESSERA_FORMS)

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
