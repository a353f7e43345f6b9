// Activations: the operators of activation_rows.h. swiglu and its gradient, which has two results, are written after
// the table.
#include "tessera/ops/pointwise/activations.h"

#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/detail/activation_rows.h"
#include "tessera/ops/pointwise/detail/formulas.h"
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

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::HWY_NAMESPACE {
using namespace detail;  // NOLINT(google-build-using-namespace): the words of the table

TESSERA_ACTIVATION_ROWS(TESSERA_FORMULA_1)
TESSERA_ACTIVATION_BACKWARD_ROWS(TESSERA_FORMULA_2)
TESSERA_FORMULA_2(swiglu, kFunctions, hn::Mul(silu_of(d, a), b), a)

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

const TileKernels* activation_kernels() {
#define TESSERA_ENTRY(name, ...) kernels_of<name##_formula>(),
  static constexpr TileKernels kKernels[] = {TESSERA_ACTIVATION_ROWS(TESSERA_ENTRY) TESSERA_ACTIVATION_BACKWARD_ROWS(
      TESSERA_ENTRY) TESSERA_ENTRY(swiglu){{swiglu_backward_tile<float>, swiglu_backward_tile<double>}}};
#undef TESSERA_ENTRY
  return kKernels;
}

}  // namespace tessera::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops {
namespace {

HWY_EXPORT(activation_kernels);

#define TESSERA_INDEX(name, ...) k_##name,
enum Index {
  TESSERA_ACTIVATION_ROWS(TESSERA_INDEX) TESSERA_ACTIVATION_BACKWARD_ROWS(TESSERA_INDEX) k_swiglu,
  k_swiglu_backward
};
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

#define TESSERA_GRADIENT_1(name, types, vector, element, algebra, flops, saves, gradient) \
  void name##_gradient_of(tensor::GradientCall& call) {                                   \
    const Tensor& g = call.grad();                                                        \
    [[maybe_unused]] const auto x = [&]() -> const Tensor& { return call.input(0); };     \
    [[maybe_unused]] const auto y = [&]() -> const Tensor& { return call.output(); };     \
    detail::give(call, 0, gradient);                                                      \
  }
#define TESSERA_GRADIENT_2(name, types, vector, element, algebra_a, algebra_b, flops, saves, gradient_a, gradient_b) \
  void name##_gradient_of(tensor::GradientCall& call) {                                                              \
    const Tensor& g = call.grad();                                                                                   \
    [[maybe_unused]] const auto a = [&]() -> const Tensor& { return call.input(0); };                                \
    [[maybe_unused]] const auto b = [&]() -> const Tensor& { return call.input(1); };                                \
    if (call.needs(0)) detail::give(call, 0, gradient_a);                                                            \
    if (call.needs(1)) detail::give(call, 1, gradient_b);                                                            \
  }
TESSERA_ACTIVATION_ROWS(TESSERA_GRADIENT_1)
TESSERA_ACTIVATION_BACKWARD_ROWS(TESSERA_GRADIENT_2)

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
#define TESSERA_ROW(row_name, kinds, names, results, row_algebra, row_flops, saved)                                  \
  constexpr PointwiseRow row_name##_row = {.name = #row_name,                                                        \
                                           .inputs = names,                                                          \
                                           .outputs = results,                                                       \
                                           .types = (kinds),                                                         \
                                           .kernels = []() -> const TileKernels& {                                   \
                                             return HWY_DYNAMIC_DISPATCH(activation_kernels)()[Index::k_##row_name]; \
                                           },                                                                        \
                                           .algebra = row_algebra,                                                   \
                                           .gradient = row_name##_gradient_of,                                       \
                                           .saves = saved,                                                           \
                                           .flops = row_flops};                                                      \
  const tensor::Operator row_name = register_row<row_name##_row>();
#define TESSERA_OPERATOR_1(name, types, vector, element, algebra, flops, saves, gradient) \
  TESSERA_ROW(name, types, "x", "out", RowAlgebra{algebra}, flops, saves)
#define TESSERA_OPERATOR_2(name, types, vector, element, of_a, of_b, flops, saves, gradient_a, gradient_b) \
  TESSERA_ROW(name, types, "a, b", "out", (RowAlgebra{of_a, of_b}), flops, saves)
TESSERA_ACTIVATION_ROWS(TESSERA_OPERATOR_1)
TESSERA_ACTIVATION_BACKWARD_ROWS(TESSERA_OPERATOR_2)
TESSERA_ROW(swiglu, kFunctions, "a, b", "out", (RowAlgebra{kOpaque, kMulti}), 20, "a, b")
TESSERA_ROW(swiglu_backward, kFunctions, "grad, a, b", "da, db", (RowAlgebra{kMulti, kOpaque, kOpaque}), 40,
            "grad, a, b")
}  // namespace rows

}  // namespace

#define TESSERA_FORMS(name, ...) TESSERA_POINTWISE_FORMS_1(name)
TESSERA_ACTIVATION_ROWS(TESSERA_FORMS)

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
