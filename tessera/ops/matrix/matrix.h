// Products of matrices.
//
// Inputs have one dtype: f32, f64, bf16, f16 (accumulated in f32, rounded once), c64, signed integers and u8 (in i64).
// Transposed views are read as they lie. Results have the same bits for any number of threads. Empty sums are zero.
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

/// [i, k] times [k, j].
TESSERA_API Tensor mm(const Tensor& a, const Tensor& b);
/// Likewise, into `out`.
TESSERA_API void mm_out(const Tensor& out, const Tensor& a, const Tensor& b);
/// [n, i, k] times [n, k, j], each with each.
TESSERA_API Tensor bmm(const Tensor& a, const Tensor& b);
/// Likewise, into `out`.
TESSERA_API void bmm_out(const Tensor& out, const Tensor& a, const Tensor& b);
/// x [..., k] times the transpose of weight [j, k], plus bias [j] where there is one.
TESSERA_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
/// Products by NumPy's rules: the last two dimensions are matrices, those before them are broadcast; a vector is a row
/// on the left, a column on the right.
TESSERA_API Tensor matmul(const Tensor& a, const Tensor& b);
/// beta * input + alpha * (a b), input broadcast.
TESSERA_API Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, const Scalar& beta = 1,
                         const Scalar& alpha = 1);
/// Likewise with bmm.
TESSERA_API Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, const Scalar& beta = 1,
                           const Scalar& alpha = 1);
/// The product of two tensors summed over labels that the result lacks: "bik,kj->bij". Every label names one size and
/// stands in at least two of the three; einsum takes care of the rest.
TESSERA_API Tensor contract(const Tensor& a, const Tensor& b, std::string_view labels);
/// Adds such a product to `sum`, in place. With layouts, `sum` has the layout that the product has: partial sums add up
/// as they are. Cannot be recorded.
TESSERA_API void contract_add_(const Tensor& sum, const Tensor& a, const Tensor& b, std::string_view labels);
/// Einstein's sum of any number of tensors: "bik,kj->bij"; "..." for dimensions that are broadcast; without "->" the
/// result has the labels that occur once, in the order of the alphabet. A label twice in one tensor takes the diagonal.
/// Products are made pair by pair, the cheapest first.
TESSERA_API Tensor einsum(std::string_view equation, std::span<const Tensor> tensors);
/// Likewise.
TESSERA_API Tensor einsum(std::string_view equation, std::initializer_list<Tensor> tensors);

}  // namespace tessera::ops
