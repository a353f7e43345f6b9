// Products of matrices.
//
// Inputs have one dtype: f32, f64, bf16, f16 (accumulated in f32, rounded once), c64, signed integers and u8 (in i64).
// Transposed views are read without a copy. Results have the same bits for any number of threads. Empty sums are zero.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Attributes of contract.
struct ContractAttributes {
  std::string labels;  ///< "bik,bkj->bij": a letter for each dimension
  TESSERA_ATTRIBUTES(labels)
};

/// Returns a [i, k] times b [k, j].
TESSERA_API Tensor mm(const Tensor& a, const Tensor& b);
/// Writes mm(a, b) to `options.out` and returns it.
TESSERA_API Tensor mm(const Tensor& a, const Tensor& b, const ResultOptions& options);
/// Returns the products of n pairs of matrices: a [n, i, k] times b [n, k, j].
TESSERA_API Tensor bmm(const Tensor& a, const Tensor& b);
/// Writes bmm(a, b) to `options.out` and returns it.
TESSERA_API Tensor bmm(const Tensor& a, const Tensor& b, const ResultOptions& options);
/// Returns x [..., k] times the transpose of weight [j, k], plus bias [j] if given.
TESSERA_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
/// Returns the product by NumPy's rules: the last two dimensions are matrices, and earlier dimensions are broadcast. A
/// vector is a row on the left and a column on the right.
TESSERA_API Tensor matmul(const Tensor& a, const Tensor& b);
/// Returns beta * input + alpha * mm(a, b). `input` is broadcast.
TESSERA_API Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, const Scalar& beta = 1,
                         const Scalar& alpha = 1);
/// Returns beta * input + alpha * bmm(a, b). `input` is broadcast.
TESSERA_API Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, const Scalar& beta = 1,
                           const Scalar& alpha = 1);
/// Returns the product of two tensors, summed over labels that the result lacks: "bik,kj->bij". Each label names one
/// size and occurs in at least two of the three operands. einsum handles all other equations.
TESSERA_API Tensor contract(const Tensor& a, const Tensor& b, std::string_view labels);
/// Adds contract(a, b, labels) to `sum` in place. The sum of products of half types may be f32. With layouts, `sum`
/// must have the layout of the product, so that partial sums add locally. Autograd does not record this operator.
TESSERA_API void contract_add_(const Tensor& sum, const Tensor& a, const Tensor& b, std::string_view labels);
/// Returns the Einstein sum of any number of tensors: "bik,kj->bij". "..." stands for dimensions that are broadcast.
/// Without "->", the result has the labels that occur once, in alphabetical order. A label that occurs twice in one
/// tensor selects the diagonal. Products are computed pair by pair, the cheapest first.
TESSERA_API Tensor einsum(std::string_view equation, std::span<const Tensor> tensors);
/// Same, for a braced list of tensors.
TESSERA_API Tensor einsum(std::string_view equation, std::initializer_list<Tensor> tensors);

}  // namespace tessera::ops
