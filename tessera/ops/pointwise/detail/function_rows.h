// Functions of one tensor. The columns of a row are: name, types, the formula of a vector and of an element x
// (formulas.h), algebra, flops, the tensors that the gradient reads, and the gradient from the gradient g of the
// result, the input x() and the result y().
#pragma once

// clang-format off
#define TESSERA_FUNCTION_ROWS(ROW)                                                                                    \
  ROW(neg, kAll & ~kBools, hn::Neg(x), wrap_neg(x), kLinearFalling, 1, "", neg(g))                                    \
  ROW(abs, (kAll & ~kBools) | kToReal, hn::Abs(x), magnitude(x), kOpaque, 1, "x", abs_gradient(g, x()))                 \
  ROW(sign, kFloats | kIntegers, sign_of(d, x), T((x > 0) - (x < 0)), kRising, 1, "", Tensor())                       \
  ROW(exp, kFunctions | kComplex, exp_of(d, x), exp(x), kRising, 15, "out", mul(g, detail::conj_of(y())))             \
  ROW(log, kFunctions | kComplex, log_of(d, x), log(x), kOpaque, 20, "x", div(g, detail::conj_of(x())))               \
  ROW(log1p, kFunctions, log1p_of(d, x), x, kOpaque, 25, "x", div(g, add(x(), 1)))                                    \
  ROW(sqrt, kFunctions | kComplex, hn::Sqrt(x), sqrt(x), kOpaque, 1, "out", div(g, mul(detail::conj_of(y()), 2)))     \
  ROW(rsqrt, kFunctions | kComplex, hn::Div(number(d, 1), hn::Sqrt(x)), T(1) / sqrt(x), kOpaque, 2, "x, out",         \
      mul(div(mul(g, detail::conj_of(y())), detail::conj_of(x())), -0.5))                                             \
  ROW(reciprocal, kFunctions | kComplex, hn::Div(number(d, 1), x), T(1) / x, kOpaque, 1, "out",                       \
      neg(mul(g, square(detail::conj_of(y())))))                                                                      \
  ROW(square, kFloats | kIntegers | kComplex, hn::Mul(x, x), wrap_mul(x, x), kOpaque, 1, "x",                         \
      mul(mul(g, detail::conj_of(x())), 2))                                                                           \
  ROW(sin, kFunctions | kComplex, sin_of(d, x), sin(x), kOpaque, 20, "x", mul(g, cos(detail::conj_of(x()))))          \
  ROW(cos, kFunctions | kComplex, cos_of(d, x), cos(x), kOpaque, 20, "x", neg(mul(g, sin(detail::conj_of(x())))))     \
  ROW(tanh, kFunctions | kComplex, tanh_of(d, x), tanh(x), kRising, 20, "out",                                        \
      sub(g, mul(g, square(detail::conj_of(y())))))                                                                   \
  ROW(erf, kFunctions, erf_of(d, x), x, kRising, 30, "x", mul(mul(g, 1.12837916709551257390), exp(neg(square(x()))))) \
  ROW(floor, kFloats | kIntegers, hn::Floor(x), x, kRising, 1, "", Tensor())                                          \
  ROW(ceil, kFloats | kIntegers, hn::Ceil(x), x, kRising, 1, "", Tensor())                                            \
  ROW(round, kFloats | kIntegers, hn::CopySign(hn::Round(x), x), x, kRising, 1, "", Tensor())
/// Functions of complex numbers without forms that work in place.
#define TESSERA_COMPLEX_ROWS(ROW) ROW(conj, kComplex, x, conj(x), kLinear, 1, "", conj(g))
/// All formulas.
#define TESSERA_FUNCTION_FORMULAS(ROW) TESSERA_FUNCTION_ROWS(ROW) TESSERA_COMPLEX_ROWS(ROW)
// clang-format on
