// Functions of one tensor. The columns of a row are: name, types, algebra, flops, the function of a vector x, the
// function of one element x (for integers and complex numbers, if the types include them), the tensors that the
// gradient reads, and the gradient from the gradient g of the result, the input x() and the result y().
#include "tessera/ops/pointwise/functions.h"

#include <cmath>
#include <complex>

#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/detail/integers.h"
#include "tessera/ops/pointwise/detail/table.h"
#include "tessera/ops/pointwise/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/pointwise/functions.cpp"
#include <hwy/foreach_target.h>
// The headers below are included once per target, after foreach_target.h.
#include <hwy/highway.h>
#include "tessera/ops/detail/tile_kernels-inl.h"
#include "tessera/ops/detail/vector_math-inl.h"

// clang-format off
#define TESSERA_ROWS(ROW)                                                                                             \
  ROW(neg, kAll & ~kBools, kLinearFalling, 1, hn::Neg(x), detail::wrap_neg(x), "", neg(g)) \
  ROW(abs, kAll & ~kBools, kOpaque, 1, hn::Abs(x), magnitude(x), "x", abs_gradient(g, x()))                           \
  ROW(sign, kFloats | kIntegers, kRising, 1, sign_of(d, x), T((x > 0) - (x < 0)), "", Tensor())                       \
  ROW(exp, kFunctions | kComplex, kRising, 15, exp_of(d, x), std::exp(x), "out", mul(g, detail::conj_of(y())))        \
  ROW(log, kFunctions | kComplex, kOpaque, 20, log_of(d, x), std::log(x), "x", div(g, detail::conj_of(x())))           \
  ROW(log1p, kFunctions, kOpaque, 25, log1p_of(d, x), x, "x", div(g, add(x(), 1)))                                    \
  ROW(sqrt, kFunctions | kComplex, kOpaque, 1, hn::Sqrt(x), std::sqrt(x), "out",                                      \
      div(g, mul(detail::conj_of(y()), 2)))                                                                           \
  ROW(rsqrt, kFunctions | kComplex, kOpaque, 2, hn::Div(number(d, 1), hn::Sqrt(x)), T(1) / std::sqrt(x), "x, out",    \
      mul(div(mul(g, detail::conj_of(y())), detail::conj_of(x())), -0.5))                                             \
  ROW(reciprocal, kFunctions | kComplex, kOpaque, 1, hn::Div(number(d, 1), x), T(1) / x, "out",                       \
      neg(mul(g, square(detail::conj_of(y())))))                                                                      \
  ROW(square, kFloats | kIntegers | kComplex, kOpaque, 1, hn::Mul(x, x), detail::wrap_mul(x, x), "x",                 \
      mul(mul(g, detail::conj_of(x())), 2))                                                                           \
  ROW(sin, kFunctions | kComplex, kOpaque, 20, sin_of(d, x), std::sin(x), "x", mul(g, cos(detail::conj_of(x()))))     \
  ROW(cos, kFunctions | kComplex, kOpaque, 20, cos_of(d, x), std::cos(x), "x", neg(mul(g, sin(detail::conj_of(x()))))) \
  ROW(tanh, kFunctions | kComplex, kRising, 20, tanh_of(d, x), std::tanh(x), "out",                                   \
      sub(g, mul(g, square(detail::conj_of(y())))))                                                                   \
  ROW(erf, kFunctions, kRising, 30, erf_of(d, x), x, "x", mul(mul(g, 1.12837916709551257390), exp(neg(square(x()))))) \
  ROW(floor, kFloats | kIntegers, kRising, 1, hn::Floor(x), x, "", Tensor())                                          \
  ROW(ceil, kFloats | kIntegers, kRising, 1, hn::Ceil(x), x, "", Tensor())                                            \
  ROW(round, kFloats | kIntegers, kRising, 1, hn::Round(x), x, "", Tensor())
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::HWY_NAMESPACE {
using namespace detail;  // NOLINT(google-build-using-namespace): the words of the table

template <class D, class V>
HWY_INLINE V sign_of(D d, V x) {
  const V zero = hn::Zero(d);
  const V one = number(d, 1);
  const V y = hn::IfThenElse(hn::Gt(x, zero), one, hn::IfThenElse(hn::Lt(x, zero), hn::Neg(one), zero));
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}
template <class T>
T magnitude(T x) {
  if constexpr (std::is_integral_v<T>) {
    return x < 0 ? detail::wrap_neg(x) : x;
  } else {
    return std::abs(x);
  }
}

#define TESSERA_KERNEL(name, types, algebra, flops, vector, element, saves, gradient) \
  TESSERA_POINTWISE_KERNEL_1(name, vector, element)
TESSERA_ROWS(TESSERA_KERNEL)
#undef TESSERA_KERNEL

const TileKernels* function_kernels() {
#define TESSERA_ENTRY(name, types, algebra, flops, vector, element, saves, gradient) \
  kernels_of<name##_kernel, 1, (types)>(),
  static constexpr TileKernels kKernels[] = {TESSERA_ROWS(TESSERA_ENTRY)};
#undef TESSERA_ENTRY
  return kKernels;
}

}  // namespace tessera::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops {
namespace {

HWY_EXPORT(function_kernels);

#define TESSERA_INDEX(name, ...) k_##name,
enum Index { TESSERA_ROWS(TESSERA_INDEX) };
#undef TESSERA_INDEX

Tensor abs_gradient(const Tensor& g, const Tensor& x) {
  if (!is_complex(x.dtype())) return mul(g, sign(x));
  const Tensor length = cast(abs(x), x.dtype());
  const Tensor direction = where(ne(x, 0), div(x, length), 0);
  return mul(cast(g, x.dtype()), direction);
}

#define TESSERA_GRADIENT(name, types, algebra, flops, vector, element, saves, gradient) \
  void name##_gradient_of(tensor::GradientCall& call) {                                 \
    [[maybe_unused]] const Tensor& g = call.grad();                                     \
    [[maybe_unused]] const auto x = [&]() -> const Tensor& { return call.input(0); };   \
    [[maybe_unused]] const auto y = [&]() -> const Tensor& { return call.output(); };   \
    if (Tensor gx = gradient) detail::give(call, 0, std::move(gx));                     \
  }
TESSERA_ROWS(TESSERA_GRADIENT)
#undef TESSERA_GRADIENT

namespace rows {
using namespace detail;  // NOLINT(google-build-using-namespace): the words of the table
#define TESSERA_OPERATOR(row_name, kinds, algebra_of_x, flops_each, vector, element, saved, gradient_of_x)             \
  constexpr PointwiseRow row_name##_row = {                                                                            \
      .name = #row_name,                                                                                               \
      .inputs = "x",                                                                                                   \
      .types = (kinds),                                                                                                \
      .kernels = []() -> const TileKernels& { return HWY_DYNAMIC_DISPATCH(function_kernels)()[Index::k_##row_name]; }, \
      .algebra = {algebra_of_x},                                                                                       \
      .gradient = row_name##_gradient_of,                                                                              \
      .saves = saved,                                                                                                  \
      .result = Index::k_##row_name == Index::k_abs ? Result::kReal : Result::kSame,                                   \
      .flops = flops_each};                                                                                            \
  const tensor::Operator row_name = register_row<row_name##_row>();
TESSERA_ROWS(TESSERA_OPERATOR)
#undef TESSERA_OPERATOR
}  // namespace rows

}  // namespace

#define TESSERA_FORMS(name, ...) TESSERA_POINTWISE_FORMS_1(name)
TESSERA_ROWS(TESSERA_FORMS)
#undef TESSERA_FORMS

}  // namespace tessera::ops
#endif  // HWY_ONCE
