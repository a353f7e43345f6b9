// Operators that rearrange elements and compute nothing. Their results are new tensors of any dtype.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "tessera/base/export.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Attributes of `cat`.
struct CatAttributes {
  std::int64_t dim = 0;  ///< dimension of the concatenation
  TESSERA_ATTRIBUTES(dim)
};
/// Attributes of `flip`.
struct FlipAttributes {
  tensor::IntList dims;  ///< dimensions that are reversed
  TESSERA_ATTRIBUTES(dims)
};
/// Attributes of `roll`.
struct RollAttributes {
  tensor::IntList shifts;  ///< shift of each of `dims` towards higher indices
  tensor::IntList dims;    ///< dimensions that are shifted
  TESSERA_ATTRIBUTES(shifts, dims)
};
/// Attributes of `pad`.
struct PadAttributes {
  tensor::IntList before;  ///< new elements before the first, per dimension of the input
  tensor::IntList after;   ///< new elements after the last, per dimension of the input
  Scalar value;            ///< value of the new elements
  TESSERA_ATTRIBUTES(before, after, value)
};
/// Attributes of `unslice`.
struct UnsliceAttributes {
  std::int64_t dim = 0;    ///< dimension along which elements are spread
  std::int64_t size = 0;   ///< size of the dimension in the result
  std::int64_t start = 0;  ///< index of the first element
  std::int64_t step = 1;   ///< distance of adjacent elements
  TESSERA_ATTRIBUTES(dim, size, start, step)
};
/// Attributes of `tril` and `triu`.
struct TriangleAttributes {
  std::int64_t diagonal = 0;  ///< last diagonal kept (tril) or first (triu); positive: above the main one
  layout::IndexMap rows;      ///< global indices of the rows; by default all
  layout::IndexMap columns;   ///< global indices of the columns; by default all
  TESSERA_ATTRIBUTES(diagonal, rows, columns)
};

/// Concatenates the tensors along `dim`. They agree in dtype and in all other dimensions. At least one is required.
TESSERA_API Tensor cat(std::span<const Tensor> tensors, std::int64_t dim = 0);
/// Same, for a braced list: cat({a, b}).
TESSERA_API Tensor cat(std::initializer_list<Tensor> tensors, std::int64_t dim = 0);
/// Returns the tensors stacked along a new dimension `dim`. They have equal shape and dtype.
TESSERA_API Tensor stack(std::span<const Tensor> tensors, std::int64_t dim = 0);
/// Same, for a braced list: stack({a, b}).
TESSERA_API Tensor stack(std::initializer_list<Tensor> tensors, std::int64_t dim = 0);
/// Returns x with the dimensions `dims` reversed.
TESSERA_API Tensor flip(const Tensor& x, const tensor::IntList& dims);
/// Returns x with the elements shifted by `shifts` along `dims`. Elements shifted past the end reappear at the front.
TESSERA_API Tensor roll(const Tensor& x, const tensor::IntList& shifts, const tensor::IntList& dims);
/// Returns x surrounded by `value`. `padding` holds before and after of the last dimension, then of the second to last,
/// and so on.
TESSERA_API Tensor pad(const Tensor& x, const tensor::IntList& padding, const Scalar& value = 0);
/// Returns zeros of `size` along `dim` with x at start, start + step, ...: the inverse of slice.
TESSERA_API Tensor unslice(const Tensor& x, std::int64_t dim, std::int64_t size, std::int64_t start,
                           std::int64_t step = 1);
/// Returns x with the elements above the diagonal set to zero in the matrices of the last two dimensions.
TESSERA_API Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
/// Returns x with the elements below the diagonal set to zero in the matrices of the last two dimensions.
TESSERA_API Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

}  // namespace tessera::ops
