// Activations of one tensor, and the products a f'(b) of a gradient and the derivative of an activation. The columns of
// a row of one tensor are: name, types, the formula of a vector x (formulas.h), none for elements, algebra, flops, the
// tensors that the gradient reads, and the gradient from the gradient g of the result, the input x() and the result
// y(). Rows of two tensors a and b have the algebra and the gradient of each.
#pragma once

// clang-format off
#define TESSERA_ACTIVATION_ROWS(ROW)                                                                                  \
  ROW(sigmoid, kFunctions, sigmoid_of(d, x), x, kRising, 20, "out", mul(mul(g, y()), sub(1, y())))                    \
  ROW(relu, kFunctions, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x), x, kRising, 1, "out",                 \
      where(gt(y(), 0), g, 0))                                                                                        \
  ROW(gelu, kFunctions, gelu_of(d, x), x, kOpaque, 30, "x", gelu_backward(g, x()))                                    \
  ROW(gelu_tanh, kFunctions, gelu_tanh_of(d, x), x, kOpaque, 30, "x", gelu_tanh_backward(g, x()))                     \
  ROW(silu, kFunctions, silu_of(d, x), x, kOpaque, 20, "x", silu_backward(g, x()))                                    \
  ROW(softplus, kFunctions, softplus_of(d, x), x, kRising, 40, "x", mul(g, sigmoid(x())))
#define TESSERA_ACTIVATION_BACKWARD_ROWS(ROW)                                                                         \
  ROW(gelu_backward, kFunctions, hn::Mul(a, gelu_slope_of(d, b)), a, kMulti, kOpaque, 40, "a, b",                     \
      gelu_backward(g, b()), mul(mul(g, a()), gelu_curvature(b())))                                                   \
  ROW(gelu_tanh_backward, kFunctions, hn::Mul(a, gelu_tanh_slope_of(d, b)), a, kMulti, kOpaque, 40, "a, b",           \
      gelu_tanh_backward(g, b()), mul(mul(g, a()), gelu_tanh_curvature(b())))                                         \
  ROW(silu_backward, kFunctions, hn::Mul(a, silu_slope_of(d, b)), a, kMulti, kOpaque, 30, "a, b",                     \
      silu_backward(g, b()), mul(mul(g, a()), silu_curvature(b())))
/// All formulas.
#define TESSERA_ACTIVATION_FORMULAS(ROW) TESSERA_ACTIVATION_ROWS(ROW) TESSERA_ACTIVATION_BACKWARD_ROWS(ROW)
// clang-format on
