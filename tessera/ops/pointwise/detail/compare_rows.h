// Comparisons of two tensors, or of a tensor and a number, and predicates. The columns of a row are: name, types, and
// the formula of vectors and of elements a and b, or x (formulas.h). Formulas yield 1 and 0.
#pragma once

// clang-format off
#define TESSERA_ORDER_ROWS(ROW)                                                             \
  ROW(eq, kAll | kToBool, claim(d, hn::Eq(a, b)), a == b)                                   \
  ROW(ne, kAll | kToBool, claim(d, hn::Not(hn::Eq(a, b))), a != b)                          \
  ROW(lt, kFloats | kIntegers | kBools | kToBool, claim(d, hn::Lt(a, b)), a < b)            \
  ROW(le, kFloats | kIntegers | kBools | kToBool, claim(d, hn::Le(a, b)), a <= b)           \
  ROW(gt, kFloats | kIntegers | kBools | kToBool, claim(d, hn::Gt(a, b)), a > b)            \
  ROW(ge, kFloats | kIntegers | kBools | kToBool, claim(d, hn::Ge(a, b)), a >= b)
/// Rows of two tensors.
#define TESSERA_LOGIC_ROWS(ROW)                                                                                       \
  ROW(logical_and, kAll | kToBool, claim(d, hn::And(is_true(d, a), is_true(d, b))), a != T(0) && b != T(0))           \
  ROW(logical_or, kAll | kToBool, claim(d, hn::Or(is_true(d, a), is_true(d, b))), a != T(0) || b != T(0))             \
  ROW(logical_xor, kAll | kToBool, claim(d, hn::Xor(is_true(d, a), is_true(d, b))), (a != T(0)) != (b != T(0)))
/// Rows of one tensor.
#define TESSERA_PREDICATE_ROWS(ROW)                                                         \
  ROW(logical_not, kAll | kToBool, claim(d, hn::Eq(x, hn::Zero(d))), x == T(0))             \
  ROW(isnan, kAll | kToBool, claim(d, hn::Not(hn::Eq(x, x))), x != x)                       \
  ROW(isfinite, kAll | kToBool, claim(d, hn::Lt(hn::Abs(x), hn::Inf(d))), is_finite(x))
/// All formulas.
#define TESSERA_COMPARE_FORMULAS(ROW) TESSERA_ORDER_ROWS(ROW) TESSERA_LOGIC_ROWS(ROW) TESSERA_PREDICATE_ROWS(ROW)
// clang-format on
