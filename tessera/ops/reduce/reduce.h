// Reductions over any dimensions. `dims` lists them, counted from the end if negative; an empty list means all
// dimensions. With keepdim they remain as dimensions of size 1.
//
// f32, bf16 and f16 are added in f32 by many accumulators, and the accumulators in f64; integers and bool are added in
// i64. Results have the same bits for any number of threads. The reduction of zero elements is the identity of the
// reduction: 0, 1, -inf or inf (for integers the least or greatest value). amax and amin return nan if an element is
// nan.
//
// If a reduced dimension is sharded, sum, mean, prod, amax, amin, any, all, histc and the norm of order inf return
// partial results. A partial mean is the local sum divided by the global count.
#pragma once

#include <cstdint>
#include <optional>

#include "tessera/base/export.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Attributes of most reductions.
struct ReduceAttributes {
  tensor::IntList dims;  ///< dimensions that are reduced; empty: all
  bool keepdim = false;  ///< keeps them as dimensions of size 1
  TESSERA_ATTRIBUTES(dims, keepdim)
};
/// Attributes of `sum`.
struct SumAttributes {
  tensor::IntList dims;       ///< dimensions that are reduced; empty: all
  bool keepdim = false;       ///< keeps them as dimensions of size 1
  DType dtype = DType::kF32;  ///< dtype of the result; elements are converted to it first
  TESSERA_ATTRIBUTES(dims, keepdim, dtype)
};
/// Attributes of `mean`.
struct MeanAttributes {
  tensor::IntList dims;     ///< dimensions that are reduced; empty: all
  bool keepdim = false;     ///< keeps them as dimensions of size 1
  std::int64_t count = -1;  ///< divisor of the sums; -1: elements per sum. For a shard: the global count
  TESSERA_ATTRIBUTES(dims, keepdim, count)
};
/// Attributes of `var`.
struct VarAttributes {
  tensor::IntList dims;         ///< dimensions that are reduced; empty: all
  bool keepdim = false;         ///< keeps them as dimensions of size 1
  std::int64_t correction = 1;  ///< subtracted from the count that divides the sum of squares
  TESSERA_ATTRIBUTES(dims, keepdim, correction)
};
/// Attributes of `norm`.
struct PNormAttributes {
  double p = 2;          ///< order; 0 counts nonzero elements, inf is the greatest, -inf the least
  tensor::IntList dims;  ///< dimensions that are reduced; empty: all
  bool keepdim = false;  ///< keeps them as dimensions of size 1
  TESSERA_ATTRIBUTES(p, dims, keepdim)
};
/// Attributes of `argmax` and `argmin`.
struct ArgAttributes {
  std::int64_t dim = 0;  ///< dimension that is searched
  bool keepdim = false;  ///< keeps it as a dimension of size 1
  /// Indices of the dimension that the input holds; by default all. Results are global indices. An empty shard yields
  /// the global size.
  layout::IndexMap map = {};
  TESSERA_ATTRIBUTES(dim, keepdim, map)
};
/// Attributes of `deviation`.
struct DeviationAttributes {
  tensor::IntList dims;  ///< dimensions of the mean; empty: all
  TESSERA_ATTRIBUTES(dims)
};
/// Attributes of `cumsum`.
struct CumsumAttributes {
  std::int64_t dim = 0;     ///< dimension that is summed
  bool is_reverse = false;  ///< sums from the end, as the gradient does
  TESSERA_ATTRIBUTES(dim, is_reverse)
};
/// Attributes of `histc`.
struct HistcAttributes {
  std::int64_t bins = 100;  ///< number of bins of equal width
  double low = 0;           ///< lower bound of the first bin
  double high = 1;          ///< upper bound of the last bin, inclusive
  TESSERA_ATTRIBUTES(bins, low, high)
};

/// Returns the sum. By default, sums of integers and bool are i64.
TESSERA_API Tensor sum(const Tensor& x, const tensor::IntList& dims = {}, bool keepdim = false,
                       std::optional<DType> dtype = std::nullopt);
/// Returns the mean of floating or complex numbers.
TESSERA_API Tensor mean(const Tensor& x, const tensor::IntList& dims = {}, bool keepdim = false);
/// Returns the product. Products of integers and bool are i64.
TESSERA_API Tensor prod(const Tensor& x, const tensor::IntList& dims = {}, bool keepdim = false);
/// Returns the greatest element. The gradient is divided evenly among equal elements.
TESSERA_API Tensor amax(const Tensor& x, const tensor::IntList& dims = {}, bool keepdim = false);
/// Returns the least element. The gradient is divided evenly among equal elements.
TESSERA_API Tensor amin(const Tensor& x, const tensor::IntList& dims = {}, bool keepdim = false);
/// Returns whether an element is not zero; bool.
TESSERA_API Tensor any(const Tensor& x, const tensor::IntList& dims = {}, bool keepdim = false);
/// Returns whether no element is zero; bool.
TESSERA_API Tensor all(const Tensor& x, const tensor::IntList& dims = {}, bool keepdim = false);
/// Returns the variance: the sum of squared deviations from the mean, divided by count - correction.
TESSERA_API Tensor var(const Tensor& x, const tensor::IntList& dims = {}, std::int64_t correction = 1,
                       bool keepdim = false);
/// Returns x minus its mean over `dims`.
TESSERA_API Tensor deviation(const Tensor& x, const tensor::IntList& dims = {});
/// Returns sum(abs(x)^p)^(1/p). For p = inf this is the greatest abs(x), for -inf the least, for 0 the number of
/// nonzero elements.
TESSERA_API Tensor norm(const Tensor& x, double p = 2, const tensor::IntList& dims = {}, bool keepdim = false);
/// Returns log(sum(exp(x))) without intermediate overflow.
TESSERA_API Tensor logsumexp(const Tensor& x, const tensor::IntList& dims = {}, bool keepdim = false);
/// Returns the index (i64) of the greatest element along `dim`: the first of equal elements, or the first nan.
TESSERA_API Tensor argmax(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// Returns the index (i64) of the greatest of all elements, in row-major order.
TESSERA_API Tensor argmax(const Tensor& x);
/// Returns the index (i64) of the least element along `dim`: the first of equal elements, or the first nan.
TESSERA_API Tensor argmin(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// Returns the index (i64) of the least of all elements, in row-major order.
TESSERA_API Tensor argmin(const Tensor& x);
/// Returns the cumulative sums along `dim`. Sums of integers and bool are i64.
TESSERA_API Tensor cumsum(const Tensor& x, std::int64_t dim);
/// Returns the number of elements in each of `bins` equal intervals of [low, high]; i64. Other elements and nan are not
/// counted.
TESSERA_API Tensor histc(const Tensor& x, std::int64_t bins, double low, double high);

/// Returns the sum over the dimensions along which `shape` was broadcast to x; x itself if it has this shape. Gradients
/// of broadcasting operators use it.
TESSERA_API Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace tessera::ops
