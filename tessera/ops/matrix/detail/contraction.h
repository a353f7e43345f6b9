// The labels of a product of two tensors, "bik,kj->bij", and how the product becomes matrix products.
//
// Labels fall into four groups by where they stand: loops (in both and the result), rows (left and result), columns
// (right and result) and the reduced ones (left and right). Neighbours in a group that lie as one dimension are merged;
// of what is left of rows and columns the largest is the matrix's and the rest are loops.
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

/// Takes "bik,kj->bij" apart; refuses what is no such text, naming the call.
ContractionLabels parse_contraction(const tensor::Call& call, std::string_view labels);
/// The size of each label of the result; refuses sizes that differ and labels that stand in one place only.
Shape contraction_shape(const tensor::Call& call, const ContractionLabels& labels, const Shape& a, const Shape& b);
/// The product of plain tensors as matrix products.
Gemm plan_contraction(const ContractionLabels& labels, const Tensor& a, const Tensor& b, const Tensor& c);
/// How a product of these labels may be sharded.
layout::FactorRule contraction_rule(const std::string& name, const ContractionLabels& labels);
/// Two for each multiplication with its addition, of real numbers.
tensor::Cost contraction_cost(const ContractionLabels& labels, const Shape& a, const Shape& b, const Shape& c,
                              DType dtype);

}  // namespace tessera::ops::detail
