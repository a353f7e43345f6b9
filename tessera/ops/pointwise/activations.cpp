// Activations. A row: name, algebra, flops, the function of a vector x, what the gradient reads, and the gradient: of
// the gradient g of the result, by the input x() and the result y(). Rows of two inputs a, b have a gradient for each.
// swiglu and its gradient, which has two results, are written after the table.
#include "tessera/ops/pointwise/activations.h"

#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/detail/table.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/pointwise/activations.cpp"
#include <hwy/foreach_target.h>
// The headers below are included once per target, after foreach_target.h.
#include <hwy/highway.h>
#include "tessera/ops/detail/normal-inl.h"
#include "tessera/ops/detail/tile_kernels-inl.h"
#include "tessera/ops/detail/vector_math-inl.h"

// clang-format off
#define TESSERA_ROWS_1(ROW)                                                                                    \
  ROW(sigmoid, kRising, 20, sigmoid_of(d, x), "out", mul(mul(g, y()), sub(1, y())))                            \
  ROW(relu, kRising, 1, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x), "out", where(gt(y(), 0), g, 0)) \
  ROW(gelu, kOpaque, 30, gelu_of(d, x), "x", gelu_backward(g, x()))                                            \
  ROW(gelu_tanh, kOpaque, 30, gelu_tanh_of(d, x), "x", gelu_tanh_backward(g, x()))                             \
  ROW(silu, kOpaque, 20, silu_of(d, x), "x", silu_backward(g, x()))                                            \
  ROW(softplus, kRising, 40, softplus_of(d, x), "x", mul(g, sigmoid(x())))
#define TESSERA_ROWS_2(ROW)                                                                                          \
  ROW(gelu_backward, kMulti, kOpaque, 40, hn::Mul(a, gelu_slope_of(d, b)), "a, b", gelu_backward(g, b()),            \
      mul(mul(g, a()), gelu_curvature(b())))                                                                         \
  ROW(gelu_tanh_backward, kMulti, kOpaque, 40, hn::Mul(a, gelu_tanh_slope_of(d, b)), "a, b",                         \
      gelu_tanh_backward(g, b()), mul(mul(g, a()), gelu_tanh_curvature(b())))                                        \
  ROW(silu_backward, kMulti, kOpaque, 30, hn::Mul(a, silu_slope_of(d, b)), "a, b", silu_backward(g, b()),            \
      mul(mul(g, a()), silu_curvature(b())))
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::HWY_NAMESPACE {

#define TESSERA_KERNEL_1(name, algebra, flops, vector, ...) TESSERA_POINTWISE_KERNEL_1(name, vector, x)
#define TESSERA_KERNEL_2(name, algebra_a, algebra_b, flops, vector, ...) TESSERA_POINTWISE_KERNEL_2(name, vector, a)
TESSERA_ROWS_1(TESSERA_KERNEL_1)
TESSERA_ROWS_2(TESSERA_KERNEL_2)
#undef TESSERA_KERNEL_1
#undef TESSERA_KERNEL_2
TESSERA_POINTWISE_KERNEL_2(swiglu, hn::Mul(silu_of(d, a), b), a)

// One sigmoid serves silu and its derivative. Beyond +-1000, where it is 0 or 1, it is that of the bound, so that
// infinities give no nan.
template <class D, class V>
HWY_INLINE void swiglu_gradients(D d, V g, V a, V b, V& of_a, V& of_b) {
  const V t = hn::Min(hn::Max(a, number(d, -1000)), number(d, 1000));
  const V s = sigmoid_of(d, t);
  const V slope = hn::Mul(s, hn::MulAdd(t, hn::Sub(number(d, 1), s), number(d, 1)));
  const V silu = hn::IfThenElse(hn::Eq(a, hn::Neg(hn::Inf(d))), hn::Zero(d), hn::Mul(a, s));
  of_a = hn::Mul(hn::Mul(g, b), hn::IfThenElse(hn::Eq(a, a), slope, a));
  of_b = hn::Mul(g, silu);
}

// Operands: the gradients of a and b, then g, a and b.
template <class T>
void swiglu_backward_tile(void* const* operands, std::int64_t n) {
  const hn::ScalableTag<T> d;
  constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
  T* at[5];
  for (std::size_t o = 0; o < 5; ++o) at[o] = static_cast<T*>(operands[o]);
  hn::Vec<decltype(d)> of_a;
  hn::Vec<decltype(d)> of_b;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    swiglu_gradients(d, hn::LoadU(d, at[2] + i), hn::LoadU(d, at[3] + i), hn::LoadU(d, at[4] + i), of_a, of_b);
    hn::StoreU(of_a, d, at[0] + i);
    hn::StoreU(of_b, d, at[1] + i);
  }
  if (i == n) return;
  HWY_ALIGN T padded[5][kLanes] = {};
  const std::size_t rest = static_cast<std::size_t>(n - i) * sizeof(T);
  for (std::size_t o = 2; o < 5; ++o) std::memcpy(padded[o], at[o] + i, rest);
  swiglu_gradients(d, hn::Load(d, padded[2]), hn::Load(d, padded[3]), hn::Load(d, padded[4]), of_a, of_b);
  hn::Store(of_a, d, padded[0]);
  hn::Store(of_b, d, padded[1]);
  for (std::size_t o = 0; o < 2; ++o) std::memcpy(at[o] + i, padded[o], rest);
}

const detail::TileKernels* activation_kernels() {
#define TESSERA_ENTRY_1(name, ...) kernels_of<name##_kernel, 1, detail::kFunctions>(),
#define TESSERA_ENTRY_2(name, ...) kernels_of<name##_kernel, 2, detail::kFunctions>(),
  static constexpr detail::TileKernels kKernels[] = {TESSERA_ROWS_1(TESSERA_ENTRY_1) TESSERA_ROWS_2(
      TESSERA_ENTRY_2) TESSERA_ENTRY_2(swiglu){{swiglu_backward_tile<float>, swiglu_backward_tile<double>}}};
#undef TESSERA_ENTRY_1
#undef TESSERA_ENTRY_2
  return kKernels;
}

}  // namespace tessera::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops {
namespace {

HWY_EXPORT(activation_kernels);

#define TESSERA_INDEX(name, ...) k_##name,
enum Index { TESSERA_ROWS_1(TESSERA_INDEX) TESSERA_ROWS_2(TESSERA_INDEX) k_swiglu, k_swiglu_backward };
#undef TESSERA_INDEX

// Second derivatives, of operators that have derivatives themselves.

// (2 - x^2) times the normal density.
Tensor gelu_curvature(const Tensor& x) {
  const Tensor x2 = square(x);
  return mul(mul(sub(2, x2), exp(mul(x2, -0.5))), 0.39894228040143267794);
}

// Of x * s(v(x)), s the sigmoid and v = k (x + c x^3): s' (2 v' + x v'') + x s'' v'^2.
Tensor gelu_tanh_curvature(const Tensor& x) {
  constexpr double kScale = 1.59576912160573071176;
  constexpr double kCubic = 0.044715 * kScale;
  const Tensor x2 = square(x);
  const Tensor s = sigmoid(mul(x, add(mul(x2, kCubic), kScale)));
  const Tensor slope = add(mul(x2, 3 * kCubic), kScale);
  const Tensor ds = mul(s, sub(1, s));
  const Tensor first = add(mul(slope, 2), mul(x2, 6 * kCubic));
  const Tensor second = mul(mul(x, square(slope)), sub(1, mul(s, 2)));
  return mul(ds, add(first, second));
}

// s (1 - s) (2 + x (1 - 2 s)).
Tensor silu_curvature(const Tensor& x) {
  const Tensor s = sigmoid(x);
  return mul(mul(s, sub(1, s)), add(mul(x, sub(1, mul(s, 2))), 2));
}

#define TESSERA_GRADIENT_1(name, algebra, flops, vector, saves, gradient)             \
  void name##_gradient_of(tensor::GradientCall& call) {                               \
    const Tensor& g = call.grad();                                                    \
    [[maybe_unused]] const auto x = [&]() -> const Tensor& { return call.input(0); }; \
    [[maybe_unused]] const auto y = [&]() -> const Tensor& { return call.output(); }; \
    detail::give(call, 0, gradient);                                                  \
  }
#define TESSERA_GRADIENT_2(name, algebra_a, algebra_b, flops, vector, saves, gradient_a, gradient_b) \
  void name##_gradient_of(tensor::GradientCall& call) {                                              \
    const Tensor& g = call.grad();                                                                   \
    [[maybe_unused]] const auto a = [&]() -> const Tensor& { return call.input(0); };                \
    [[maybe_unused]] const auto b = [&]() -> const Tensor& { return call.input(1); };                \
    if (call.needs(0)) detail::give(call, 0, gradient_a);                                            \
    if (call.needs(1)) detail::give(call, 1, gradient_b);                                            \
  }
TESSERA_ROWS_1(TESSERA_GRADIENT_1)
TESSERA_ROWS_2(TESSERA_GRADIENT_2)

void swiglu_gradient_of(tensor::GradientCall& call) {
  const Tensor& g = call.grad();
  const Tensor& a = call.input(0);
  const Tensor& b = call.input(1);
  if (!call.needs(0)) return detail::give(call, 1, mul(g, silu(a)));
  if (!call.needs(1)) return detail::give(call, 0, silu_backward(mul(g, b), a));
  if (b.has_layout() && !b.layout().partials().empty()) {
    // Each gradient alone is linear in b, both together are not: nothing has to be reduced.
    detail::give(call, 0, silu_backward(mul(g, b), a));
    detail::give(call, 1, mul(g, silu(a)));
    return;
  }
  SwigluGradients of = swiglu_backward(g, a, b);
  detail::give(call, 0, std::move(of.a));
  detail::give(call, 1, std::move(of.b));
}

// Of g b silu'(a) by the gradient `first`, and of g silu(a) by `second`.
void swiglu_backward_gradient_of(tensor::GradientCall& call) {
  const Tensor& first = call.grad(0);
  const Tensor& second = call.grad(1);
  const Tensor& g = call.input(0);
  const Tensor& a = call.input(1);
  const Tensor& b = call.input(2);
  const auto give_sum = [&](int input, const Tensor& x, const Tensor& y) {
    if (x || y) detail::give(call, input, x && y ? add(x, y) : x ? x : y);
  };
  if (call.needs(0)) {
    give_sum(0, first ? silu_backward(mul(first, b), a) : Tensor(), second ? mul(second, silu(a)) : Tensor());
  }
  if (call.needs(1)) {
    give_sum(1, first ? mul(mul(mul(first, g), b), silu_curvature(a)) : Tensor(),
             second ? silu_backward(mul(second, g), a) : Tensor());
  }
  if (call.needs(2)) give_sum(2, first ? silu_backward(mul(first, g), a) : Tensor(), {});
}

namespace rows {
using namespace detail;  // NOLINT(google-build-using-namespace): the words of the table
#define TESSERA_ROW(row_name, names, results, row_algebra, row_flops, saved)                                         \
  constexpr PointwiseRow row_name##_row = {.name = #row_name,                                                        \
                                           .inputs = names,                                                          \
                                           .outputs = results,                                                       \
                                           .types = kFunctions,                                                      \
                                           .kernels = []() -> const TileKernels& {                                   \
                                             return HWY_DYNAMIC_DISPATCH(activation_kernels)()[Index::k_##row_name]; \
                                           },                                                                        \
                                           .algebra = row_algebra,                                                   \
                                           .gradient = row_name##_gradient_of,                                       \
                                           .saves = saved,                                                           \
                                           .flops = row_flops};                                                      \
  const tensor::Operator row_name = register_row<row_name##_row>();
#define TESSERA_OPERATOR_1(name, algebra, flops, vector, saves, gradient) \
  TESSERA_ROW(name, "x", "out", RowAlgebra{algebra}, flops, saves)
#define TESSERA_OPERATOR_2(name, of_a, of_b, flops, vector, saves, gradient_a, gradient_b) \
  TESSERA_ROW(name, "a, b", "out", (RowAlgebra{of_a, of_b}), flops, saves)
TESSERA_ROWS_1(TESSERA_OPERATOR_1)
TESSERA_ROWS_2(TESSERA_OPERATOR_2)
TESSERA_ROW(swiglu, "a, b", "out", (RowAlgebra{kOpaque, kMulti}), 20, "a, b")
TESSERA_ROW(swiglu_backward, "grad, a, b", "da, db", (RowAlgebra{kMulti, kOpaque, kOpaque}), 40, "grad, a, b")
}  // namespace rows

}  // namespace

#define TESSERA_FORMS(name, ...) TESSERA_POINTWISE_FORMS_1(name)
TESSERA_ROWS_1(TESSERA_FORMS)

Tensor swiglu(const Tensor& a, const Tensor& b) { return tensor::call(rows::swiglu, {a, b}); }
Tensor swiglu(const Tensor& a, const Tensor& b, const ResultOptions& options) {
  return tensor::call_out(rows::swiglu, options.out, {a, b});
}
Tensor gelu_backward(const Tensor& gradient, const Tensor& x) {
  return tensor::call(rows::gelu_backward, {gradient, x});
}
Tensor gelu_tanh_backward(const Tensor& gradient, const Tensor& x) {
  return tensor::call(rows::gelu_tanh_backward, {gradient, x});
}
Tensor silu_backward(const Tensor& gradient, const Tensor& x) {
  return tensor::call(rows::silu_backward, {gradient, x});
}
SwigluGradients swiglu_backward(const Tensor& gradient, const Tensor& a, const Tensor& b) {
  const Tensor inputs[] = {gradient, a, b};
  Tensor outputs[2];
  tensor::call_into({rows::swiglu_backward, inputs, {}, outputs});
  return {outputs[0], outputs[1]};
}

}  // namespace tessera::ops
#endif  // HWY_ONCE
