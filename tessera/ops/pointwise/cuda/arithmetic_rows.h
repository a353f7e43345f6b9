// Arithmetic on CUDA: the one place where a pointwise operator gets its kernels there. arithmetic_kernels.cu makes
// kernels of the rows, arithmetic.cpp finds and registers them; both read this file alone.
//
// A row: name of the operator, number of tensors, types as in its row on the host, and the result from the values a and
// b at one place, in any of the types (functions for it stand in arithmetic_kernels.cu).
// A row with a number: name of the operator, the row whose kernels it runs, and where the number stands.
#pragma once

// clang-format off
#define TESSERA_CUDA_ARITHMETIC_ROWS(ROW)              \
  ROW(add, 2, kAll, sum_of(a, b))                      \
  ROW(sub, 2, kAll & ~kBools, difference_of(a, b))     \
  ROW(mul, 2, kAll, product_of(a, b))
#define TESSERA_CUDA_ARITHMETIC_NUMBER_ROWS(ROW)       \
  ROW(add_scalar, add, kLast)                          \
  ROW(sub_scalar, sub, kLast)                          \
  ROW(rsub_scalar, sub, kFirst)                        \
  ROW(mul_scalar, mul, kLast)
// clang-format on
