// Operators that put elements elsewhere and compute nothing: their results are new tensors. All dtypes.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/base/export.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Of `cat`.
struct CatAttributes {
  std::int64_t dim = 0;  ///< along which they are put one behind the other
  TESSERA_ATTRIBUTES(dim)
};
/// Of `flip`.
struct FlipAttributes {
  tensor::IntList dims;  ///< that are reversed
  TESSERA_ATTRIBUTES(dims)
};
/// Of `roll`.
struct RollAttributes {
  tensor::IntList shifts;  ///< towards higher indices, of each of `dims`
  tensor::IntList dims;    ///< that are shifted
  TESSERA_ATTRIBUTES(shifts, dims)
};
/// Of `pad`.
struct PadAttributes {
  tensor::IntList before;  ///< per dimension of the input: how many in front
  tensor::IntList after;   ///< per dimension: how many behind
  Scalar value;            ///< of the new elements
  TESSERA_ATTRIBUTES(before, after, value)
};
/// Of `unslice`.
struct UnsliceAttributes {
  std::int64_t dim = 0;    ///< along which elements are spread
  std::int64_t size = 0;   ///< of the result there
  std::int64_t start = 0;  ///< where the first goes
  std::int64_t step = 1;   ///< from one to the next
  TESSERA_ATTRIBUTES(dim, size, start, step)
};
/// Of `tril` and `triu`.
struct TriangleAttributes {
  std::int64_t diagonal = 0;  ///< the last that is kept (tril), or the first (triu): above the main one when positive
  layout::IndexMap rows;      ///< where the rows lie in the whole matrix; as made: they are all of it
  layout::IndexMap columns;   ///< likewise
  TESSERA_ATTRIBUTES(diagonal, rows, columns)
};

/// One behind the other along a dimension; they are alike in dtype and in all other dimensions. At least one.
TESSERA_API Tensor cat(std::span<const Tensor> tensors, std::int64_t dim = 0);
/// Along a new dimension `dim`; they are alike in shape and dtype.
TESSERA_API Tensor stack(std::span<const Tensor> tensors, std::int64_t dim = 0);
/// These dimensions in reverse.
TESSERA_API Tensor flip(const Tensor& x, const tensor::IntList& dims);
/// Elements moved on by `shifts` along `dims`, in at the front what goes out at the end.
TESSERA_API Tensor roll(const Tensor& x, const tensor::IntList& shifts, const tensor::IntList& dims);
/// With `value` around it. `padding`: before and after of the last dimension, then of the one before it, and so on.
TESSERA_API Tensor pad(const Tensor& x, const tensor::IntList& padding, const Scalar& value = 0);
/// Zeros, `size` along a dimension, with x at start, start + step, ...: what slice takes out, put back.
TESSERA_API Tensor unslice(const Tensor& x, std::int64_t dim, std::int64_t size, std::int64_t start,
                           std::int64_t step = 1);
/// The last two dimensions as matrices, zero above the given diagonal.
TESSERA_API Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
/// Zero below the given diagonal.
TESSERA_API Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

}  // namespace tessera::ops
