// Functions that the rows of a table define, by the number of their tensors. Each file that uses them has the operators
// in its namespace `rows`.
#pragma once

#include "tessera/ops/pointwise/detail/gradients.h"
#include "tessera/ops/pointwise/detail/row.h"
#include "tessera/tensor/call.h"

/// Defines the functions of an operator of one input: a new tensor, in place, to a given tensor.
#define TESSERA_POINTWISE_FORMS_1(name)                                   \
  Tensor name(const Tensor& x) { return tensor::call(rows::name, {x}); }  \
  void name##_(const Tensor& x) { tensor::call_out(rows::name, x, {x}); } \
  Tensor name(const Tensor& x, const ResultOptions& options) { return tensor::call_out(rows::name, options.out, {x}); }
/// Defines the functions of an operator of two inputs: a new tensor, in place, to a given tensor.
#define TESSERA_POINTWISE_FORMS_2(name)                                                       \
  Tensor name(const Tensor& a, const Tensor& b) { return tensor::call(rows::name, {a, b}); }  \
  void name##_(const Tensor& a, const Tensor& b) { tensor::call_out(rows::name, a, {a, b}); } \
  Tensor name(const Tensor& a, const Tensor& b, const ResultOptions& options) {               \
    return tensor::call_out(rows::name, options.out, {a, b});                                 \
  }
