// Sums of products of labeled tensors, for einsum and matmul.
#pragma once

#include <string>
#include <vector>

#include "tessera/tensor/tensor.h"

namespace tessera::ops::detail {

/// A tensor with a distinct label for each dimension.
struct EinsumTerm {
  Tensor tensor;
  std::string labels;
};

/// Returns the product of all terms, summed over labels that `result` lacks. A dimension of 1 is broadcast where others
/// of its label are larger; other sizes must agree. Errors name `name`.
Tensor sum_of_products(const char* name, std::vector<EinsumTerm> terms, const std::string& result);
/// Calls the operator `linear`, which has no bias.
Tensor linear_without_bias(const Tensor& x, const Tensor& weight);

}  // namespace tessera::ops::detail
