// Formulas of three or more inputs, and operators that select. The columns of a formula are: name, types, the formula
// of vectors and of elements (formulas.h), and the names of the inputs. The columns of an operator are: name, formula,
// tensors, position of the numbers among the inputs, algebra, flops, the tensors that the gradient reads, and the
// function that sets the gradients.
#pragma once

// clang-format off
#define TESSERA_SELECTION_ROWS_3(ROW)                                                                                 \
  ROW(where, kAll | kFirstIsMask, hn::IfThenElse(hn::Ne(mask, hn::Zero(d)), a, b), mask != T(0) ? a : b, mask, a, b)  \
  ROW(clamp, kFloats | kIntegers, hn::IfThenElse(hn::Gt(x, high), high, hn::IfThenElse(hn::Lt(x, low), low, x)),      \
      x > high ? high : x < low ? low : x, x, low, high)                                                              \
  ROW(lerp, kFloats | kComplex, hn::MulAdd(weight, hn::Sub(b, a), a), a + weight * (b - a), a, b, weight)
#define TESSERA_SELECTION_ROWS_4(ROW)                                                                                 \
  ROW(addcmul, kFloats | kIntegers | kComplex, hn::MulAdd(hn::Mul(value, a), b, x),                                   \
      wrap_add(x, wrap_mul(wrap_mul(value, a), b)), x, a, b, value)                                                   \
  ROW(addcdiv, kFloats | kComplex, hn::Add(x, hn::Div(hn::Mul(value, a), b)), x + value * a / b, x, a, b, value)
/// All formulas.
#define TESSERA_SELECTION_FORMULAS(ROW) TESSERA_SELECTION_ROWS_3(ROW) TESSERA_SELECTION_ROWS_4(ROW)
#define TESSERA_SELECTION_OPERATORS(ROW)                                                                              \
  ROW(where, where, "mask, a, b", kNone, (RowAlgebra{kOpaque, kLinearRising, kLinearRising}), 1, "mask",              \
      where_gradient)                                                                                                 \
  ROW(where_scalar, where, "mask, a", kLast, (RowAlgebra{kOpaque, kRising}), 1, "mask", where_gradient)               \
  ROW(clamp, clamp, "x", kRange, (RowAlgebra{kRising}), 2, "x", clamp_gradient)                                       \
  ROW(lerp, lerp, "a, b, weight", kNone, (RowAlgebra{}), 3, "a, b, weight", lerp_gradient)                            \
  ROW(lerp_scalar, lerp, "a, b", kLast, (RowAlgebra{kLinear, kLinear}), 3, "", lerp_scalar_gradient)                  \
  ROW(addcmul, addcmul, "x, a, b", kLast, (RowAlgebra{}), 3, "a, b", addcmul_gradient)                                \
  ROW(addcdiv, addcdiv, "x, a, b", kLast, (RowAlgebra{}), 3, "a, b", addcdiv_gradient)
// clang-format on
