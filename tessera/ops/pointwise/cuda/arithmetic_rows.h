// The table of pointwise operators with CUDA kernels. arithmetic_kernels.cu defines the kernels of the rows,
// arithmetic.cpp looks them up and registers them. Both read only this file.
//
// The columns of a row are: name of the operator, number of tensors, types as in its row on the host, and the result
// from the values a and b of one element, in any of the types (arithmetic_kernels.cu defines the functions).
// The columns of a row with a number are: name of the operator, the row whose kernels it runs, and the position of the
// number.
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
