// Operators that read or write where indices say. Indices are integers (on CUDA i64 or i32), count from 0 and are
// checked when the work runs: one that is out of range is an error at the next wait for the stream, which names
// operator, index and range.
//
// Where several elements meet in one place they are added in the order of the index, so that results have the same bits
// for any number of threads.
#pragma once

#include <cstdint>
#include <utility>

#include "tessera/base/export.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Of `gather` and `scatter_add`.
struct IndexAttributes {
  std::int64_t dim = 0;  ///< that indices are of
  TESSERA_ATTRIBUTES(dim)
};
/// Of `index_select` and `index_add`.
struct IndexSliceAttributes {
  std::int64_t dim = 0;       ///< that indices are of
  std::int64_t size = -1;     ///< of it in the whole; -1: as much as is given
  layout::IndexMap map = {};  ///< which of it is given; as made: all
  TESSERA_ATTRIBUTES(dim, size, map)
};
/// Of `scatter`.
struct ScatterAttributes {
  std::int64_t dim = 0;  ///< that indices are of
  Scalar value;          ///< written where there is no tensor of values
  TESSERA_ATTRIBUTES(dim, value)
};
/// Of `index_sum` and `scatter_sum`.
struct IndexSumAttributes {
  std::int64_t dim = 0;   ///< that indices are of
  std::int64_t size = 0;  ///< of it, in the whole result
  layout::IndexMap map;   ///< index_sum: which of it the result holds; as made: all
  TESSERA_ATTRIBUTES(dim, size, map)
};
/// Of `masked_fill`.
struct MaskedFillAttributes {
  Scalar value;  ///< where the mask is true
  TESSERA_ATTRIBUTES(value)
};
/// Of `embedding`.
struct EmbeddingAttributes {
  std::int64_t rows = -1;    ///< of the whole table; -1: as many as are given
  layout::IndexMap row_map;  ///< which of them are given; as made: all
  TESSERA_ATTRIBUTES(rows, row_map)
};
/// Of `one_hot`.
struct OneHotAttributes {
  std::int64_t classes = 0;    ///< how many
  layout::IndexMap class_map;  ///< which of them the result holds; as made: all
  TESSERA_ATTRIBUTES(classes, class_map)
};
/// Of `topk`.
struct TopkAttributes {
  std::int64_t k = 1;      ///< how many
  std::int64_t dim = -1;   ///< along which
  bool is_largest = true;  ///< or the least
  TESSERA_ATTRIBUTES(k, dim, is_largest)
};
/// Of `sort`.
struct SortAttributes {
  std::int64_t dim = -1;       ///< along which
  bool is_descending = false;  ///< greatest first
  TESSERA_ATTRIBUTES(dim, is_descending)
};

/// Slices of x along a dimension, in the order of `index`, whose dimensions stand in the result in place of that one.
TESSERA_API Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);
/// x with the slices of `source` along a dimension added at `index`, which has one dimension.
TESSERA_API Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
/// index_add to zeros of `size` along the dimension. Here the index may have any shape: the source has its dimensions
/// in place of that one.
TESSERA_API Tensor index_sum(const Tensor& source, std::int64_t dim, const Tensor& index, std::int64_t size);
/// Likewise, of the shape of `like` and cut as it is, so that ranks add up their own slices alone. It is not read.
TESSERA_API Tensor index_sum_like(const Tensor& source, std::int64_t dim, const Tensor& index, const Tensor& like);
/// out[i][j] = x[index[i][j]][j] for dimension 0, and so on. `index` has as many dimensions as x, and is no larger in
/// the others.
TESSERA_API Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index);
/// x with source[i][j] written at [index[i][j]][j] for dimension 0, and so on; the last of those that meet. `source`
/// has the shape of `index`. In the gradient each of those that meet counts as written.
TESSERA_API Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
/// Likewise, with one value.
TESSERA_API Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Scalar& value);
/// Likewise, added.
TESSERA_API Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
/// scatter_add to zeros of `size` along the dimension and of the sizes of `index` along the others.
TESSERA_API Tensor scatter_sum(const Tensor& source, std::int64_t dim, const Tensor& index, std::int64_t size);
/// x with `value` where `mask` (bool, broadcast to x) is true.
TESSERA_API Tensor masked_fill(const Tensor& x, const Tensor& mask, const Scalar& value);
/// Rows of `weight` [rows, width] at `index`, of any shape: a tensor of that shape and width. A part of the rows gives
/// zeros for those that it lacks, so that parts add up to the whole.
TESSERA_API Tensor embedding(const Tensor& weight, const Tensor& index);
/// 1 at the class of each index, else 0, along a new last dimension; i64.
TESSERA_API Tensor one_hot(const Tensor& index, std::int64_t classes);
/// The k greatest (or least) along a dimension, in order, and their indices (i64). Of equals the first come first; nan
/// counts as greatest.
TESSERA_API std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1,
                                           bool is_largest = true);
/// In order along a dimension, and the indices (i64) where elements were. Stable: equals keep their order; nan counts
/// as greatest.
TESSERA_API std::pair<Tensor, Tensor> sort(const Tensor& x, std::int64_t dim = -1, bool is_descending = false);
/// For each uniform number of [0, 1) the class whose part of the cumulated probabilities (last dimension, of any
/// positive sum) it falls into; i64. Other dimensions are the same.
TESSERA_API Tensor sample_index(const Tensor& probabilities, const Tensor& uniforms);
/// `count` classes drawn by their probabilities along the last dimension, of any positive sum; i64. Without replacement
/// they differ, and at least as many must have a probability above 0.
TESSERA_API Tensor multinomial(const Tensor& probabilities, std::int64_t count, bool with_replacement = false);

}  // namespace tessera::ops
