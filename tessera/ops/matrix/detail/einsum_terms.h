// Sums of products of labelled tensors: what einsum and matmul end in.
#pragma once

#include <string>
#include <vector>

#include "tessera/tensor/tensor.h"

namespace tessera::ops::detail {

/// A tensor and a label for each of its dimensions, each once.
struct EinsumTerm {
  Tensor tensor;
  std::string labels;
};

/// The sum of the product of all terms over labels that `result` lacks. A dimension of 1 is broadcast where others of
/// its label are larger; other sizes must agree. `name` is who is blamed in errors.
Tensor sum_of_products(const char* name, std::vector<EinsumTerm> terms, const std::string& result);
/// The operator linear, which has no bias.
Tensor linear_without_bias(const Tensor& x, const Tensor& weight);

}  // namespace tessera::ops::detail
