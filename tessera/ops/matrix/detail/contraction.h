// Converts a product of labeled tensors, "bik,kj->bij", to matrix products.
//
// Labels form four groups: loops (in both operands and the result), rows (in the left operand and the result), columns
// (in the right operand and the result) and reduced labels (in both operands). Adjacent dimensions of a group are
// merged if their strides permit. The largest remaining dimension of rows and of columns is that of the matrix; the
// others are loops.
#pragma once

#include <string>
#include <string_view>

#include "tessera/ops/matrix/detail/gemm.h"
#include "tessera/tensor/op_def.h"

namespace tessera::ops::detail {

/// The three parts of the labels.
struct ContractionLabels {
  std::string a;
  std::string b;
  std::string c;
};

/// Parses "bik,kj->bij". Throws InvalidArgument, which names the call, if the text is malformed.
ContractionLabels parse_contraction(const tensor::Call& call, std::string_view labels);
/// Returns the shape of the result. Throws if sizes differ, or if a label occurs in only one of the three.
Shape contraction_shape(const tensor::Call& call, const ContractionLabels& labels, const Shape& a, const Shape& b);
/// Returns the product of plain tensors as matrix products.
Gemm plan_contraction(const ContractionLabels& labels, const Tensor& a, const Tensor& b, const Tensor& c);
/// Returns the sharding rule of a product of these labels.
layout::FactorRule contraction_rule(const std::string& name, const ContractionLabels& labels);
/// Returns the cost: two FLOPs for each real multiplication with its addition.
tensor::Cost contraction_cost(const ContractionLabels& labels, const Shape& a, const Shape& b, const Shape& c,
                              DType dtype);

}  // namespace tessera::ops::detail
