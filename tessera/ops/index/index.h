// Operators that read or write at indices. Indices are integers that count from 0. They are checked when the work runs.
// An index out of range fails the next wait for the stream, with an error that names operator, index and range. On
// CUDA, it fails all waits for the device until Stream::reset_error, also if a replayed graph reads it.
//
// Elements with the same index are added in the order of the index, so that results have the same bits for any number
// of threads.
#pragma once

#include <cstdint>
#include <utility>

#include "tessera/base/export.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Attributes of `gather` and `scatter_add`.
struct IndexAttributes {
  std::int64_t dim = 0;  ///< dimension that is indexed
  TESSERA_ATTRIBUTES(dim)
};
/// Attributes of `index_select` and `index_add`.
struct IndexSliceAttributes {
  std::int64_t dim = 0;       ///< dimension that is indexed
  std::int64_t size = -1;     ///< global size of the dimension; -1: the size of the input
  layout::IndexMap map = {};  ///< slices that the input holds; by default all
  TESSERA_ATTRIBUTES(dim, size, map)
};
/// Attributes of `scatter`.
struct ScatterAttributes {
  std::int64_t dim = 0;  ///< dimension that is indexed
  Scalar value;          ///< written if no source tensor is given
  TESSERA_ATTRIBUTES(dim, value)
};
/// Attributes of `index_sum` and `scatter_sum`.
struct IndexSumAttributes {
  std::int64_t dim = 0;   ///< dimension that is indexed
  std::int64_t size = 0;  ///< global size of the dimension in the result
  layout::IndexMap map;   ///< index_sum: slices that the result holds; by default all
  TESSERA_ATTRIBUTES(dim, size, map)
};
/// Attributes of `masked_fill`.
struct MaskedFillAttributes {
  Scalar value;  ///< written where the mask is true
  TESSERA_ATTRIBUTES(value)
};
/// Attributes of `embedding`.
struct EmbeddingAttributes {
  std::int64_t rows = -1;    ///< rows of the global table; -1: the rows of `weight`
  layout::IndexMap row_map;  ///< rows that `weight` holds; by default all
  TESSERA_ATTRIBUTES(rows, row_map)
};
/// Attributes of `one_hot`.
struct OneHotAttributes {
  std::int64_t classes = 0;    ///< number of classes
  layout::IndexMap class_map;  ///< classes that the result holds; by default all
  TESSERA_ATTRIBUTES(classes, class_map)
};
/// Attributes of `topk`.
struct TopkAttributes {
  std::int64_t k = 1;      ///< number of elements to return
  std::int64_t dim = -1;   ///< dimension that is searched
  bool is_largest = true;  ///< false: the least elements
  TESSERA_ATTRIBUTES(k, dim, is_largest)
};
/// Attributes of `sort`.
struct SortAttributes {
  std::int64_t dim = -1;       ///< dimension that is sorted
  bool is_descending = false;  ///< greatest element first
  TESSERA_ATTRIBUTES(dim, is_descending)
};

/// Returns the slices of x along `dim` at `index`, in this order. The dimensions of `index` replace `dim` in the
/// result.
TESSERA_API Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);
/// Returns x with the slices of `source` along `dim` added at `index`, which has one dimension.
TESSERA_API Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
/// Returns index_add to zeros of `size` along `dim`. `index` may have any shape: in `source`, its dimensions replace
/// `dim`.
TESSERA_API Tensor index_sum(const Tensor& source, std::int64_t dim, const Tensor& index, std::int64_t size);
/// Returns index_sum with the shape and layout of `like`, so that each rank adds only its own slices. Does not read
/// `like`.
TESSERA_API Tensor index_sum_like(const Tensor& source, std::int64_t dim, const Tensor& index, const Tensor& like);
/// Returns out with out[i][j] = x[index[i][j]][j] for dimension 0; other dimensions are analogous. `index` has as many
/// dimensions as x and is not larger than x in dimensions other than `dim`.
TESSERA_API Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index);
/// Returns x with source[i][j] written at [index[i][j]][j] for dimension 0; other dimensions are analogous. If indices
/// coincide, the last element wins; the gradient counts each of them as written. `source` has the shape of `index`.
TESSERA_API Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
/// Returns x with `value` written at the indices.
TESSERA_API Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Scalar& value);
/// Returns x with source[i][j] added at [index[i][j]][j] for dimension 0; other dimensions are analogous.
TESSERA_API Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
/// Returns scatter_add to zeros, with `size` along `dim` and the sizes of `index` along the other dimensions.
TESSERA_API Tensor scatter_sum(const Tensor& source, std::int64_t dim, const Tensor& index, std::int64_t size);
/// Returns x with `value` where `mask` (bool, broadcast to x) is true.
TESSERA_API Tensor masked_fill(const Tensor& x, const Tensor& mask, const Scalar& value);
/// Returns the rows of `weight` [rows, width] at `index`, which may have any shape. The result has this shape, then
/// width. A shard of the rows yields zeros for rows that it does not hold, so that the results of all shards add up to
/// the global result.
TESSERA_API Tensor embedding(const Tensor& weight, const Tensor& index);
/// Returns 1 at the class of each index and 0 elsewhere, along a new last dimension; i64.
TESSERA_API Tensor one_hot(const Tensor& index, std::int64_t classes);
/// Returns the k greatest (or least) elements along `dim` in order, and their indices (i64). The first of equal
/// elements comes first. nan counts as greatest.
TESSERA_API std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1,
                                           bool is_largest = true);
/// Returns the elements in order along `dim`, and their original indices (i64). The sort is stable. nan counts as
/// greatest.
TESSERA_API std::pair<Tensor, Tensor> sort(const Tensor& x, std::int64_t dim = -1, bool is_descending = false);
/// Returns for each uniform number in [0, 1) the class (i64) whose range of the cumulative probabilities contains it.
/// The last dimension of `probabilities` holds the classes and may have any positive sum. All other dimensions are
/// equal.
TESSERA_API Tensor sample_index(const Tensor& probabilities, const Tensor& uniforms);
/// Returns `count` classes (i64) drawn by their probabilities along the last dimension, which may have any positive
/// sum. There may be 2^24 classes. Without replacement the classes differ, and at least `count` classes must have a
/// probability above 0.
TESSERA_API Tensor multinomial(const Tensor& probabilities, std::int64_t count, bool with_replacement = false);

}  // namespace tessera::ops
