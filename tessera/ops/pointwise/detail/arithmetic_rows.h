// Arithmetic of two tensors, and of a tensor and a number, which has the same formula. The columns of a row of two
// tensors are: name, types, the formula of vectors and of elements a and b (formulas.h), algebra of a and of b, flops,
// the tensors that the gradient reads, and the gradients of a and b, from the gradient g of the result, the inputs a()
// and b() and the result y(). The columns of a row with a number are: name, row of the formula, position of the
// number, algebra, the tensors that the gradient reads, and the gradient from g, x(), y() and the number s.
#pragma once

// clang-format off
#define TESSERA_ARITHMETIC_ROWS(ROW)                                                                                 \
  ROW(add, kAll, hn::Add(a, b), wrap_add(a, b), kLinearRising, kLinearRising, 1, "", g, g)                           \
  ROW(sub, kAll & ~kBools, hn::Sub(a, b), wrap_sub(a, b), kLinearRising, kLinearFalling, 1, "", g, neg(g))           \
  ROW(mul, kAll, hn::Mul(a, b), wrap_mul(a, b), kMulti, kMulti, 1, "a, b", mul(g, conj_of(b())), mul(g, conj_of(a()))) \
  ROW(div, kFunctions | kComplex, hn::Div(a, b), a / b, kMulti, kOpaque, 1, "b, out", div(g, conj_of(b())),          \
      neg(mul(g, conj_of(div(y(), b())))))                                                                           \
  ROW(pow, kFloats | kIntegers | kComplex, pow_of(d, a, b), power_of(a, b), kOpaque, kOpaque, 50, "a, b, out",       \
      mul(g, conj_of(mul(b(), pow(a(), sub(b(), 1))))), mul(g, conj_of(mul(y(), log_or_0(a())))))                    \
  ROW(minimum, kFloats | kIntegers | kBools, minimum_of(d, a, b), (a < b ? a : b), kRising, kRising, 1, "a, b",      \
      mul(g, share(b(), a())), mul(g, share(a(), b())))                                                              \
  ROW(maximum, kFloats | kIntegers | kBools, maximum_of(d, a, b), (a > b ? a : b), kRising, kRising, 1, "a, b",      \
      mul(g, share(a(), b())), mul(g, share(b(), a())))                                                              \
  ROW(floor_divide, kFloats | kIntegers, floor_divide_of(d, a, b), floor_quotient(a, b), kOpaque, kOpaque, 4, "",    \
      Tensor(), Tensor())                                                                                            \
  ROW(remainder, kFloats | kIntegers, remainder_of(d, a, b), floor_remainder(a, b), kOpaque, kOpaque, 4, "a, b",     \
      g, neg(mul(g, floor_divide(a(), b()))))
#define TESSERA_ARITHMETIC_NUMBER_ROWS(ROW)                                                                          \
  ROW(add_scalar, add, kLast, kRising, "", g)                                                                  \
  ROW(sub_scalar, sub, kLast, kRising, "", g)                                                        \
  ROW(rsub_scalar, sub, kFirst, kFalling, "", neg(g))                                                \
  ROW(mul_scalar, mul, kLast, kLinear, "", mul(g, conj_number(s)))                                             \
  ROW(div_scalar, div, kLast, kLinear, "", div(g, conj_number(s)))                            \
  ROW(rdiv_scalar, div, kFirst, kOpaque, "x, out", neg(mul(g, conj_of(div(y(), x())))))       \
  ROW(pow_scalar, pow, kLast, kOpaque, "x", power_gradient(g, x(), s))               \
  ROW(rpow_scalar, pow, kFirst, kOpaque, "out",                                      \
      mul(mul(g, conj_of(y())), conj_number(log_for(g, s))))                                                         \
  ROW(floor_divide_scalar, floor_divide, kLast, kOpaque, "", Tensor())                          \
  ROW(remainder_scalar, remainder, kLast, kOpaque, "", g)
// clang-format on
