// Reductions over any dimensions. `dims` lists them, counted from the end when negative; an empty list is all of them.
// With keepdim they stay as dimensions of 1.
//
// f32, bf16 and f16 are added in f32 by many accumulators and those in f64; integers and bool in i64. Results have the
// same bits for any number of threads. A reduction of nothing is the identity of the fold: 0, 1, -inf or inf (of
// integers the least or greatest value). amax and amin give nan where there is one.
//
// Over ranks: sum, mean, prod, amax, amin, any, all, histc and the norm of order inf leave partial results where a
// reduced dimension is cut. Means are partial sums over the global count.
#pragma once

#include <cstdint>
#include <optional>

#include "tessera/base/export.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Of most reductions.
struct ReduceAttributes {
  tensor::IntList dims;  ///< that are reduced; empty: all
  bool keepdim = false;  ///< as dimensions of 1
  TESSERA_ATTRIBUTES(dims, keepdim)
};
/// Of `sum`.
struct SumAttributes {
  tensor::IntList dims;       ///< that are reduced; empty: all
  bool keepdim = false;       ///< as dimensions of 1
  DType dtype = DType::kF32;  ///< of the result; elements are converted to it first
  TESSERA_ATTRIBUTES(dims, keepdim, dtype)
};
/// Of `mean`.
struct MeanAttributes {
  tensor::IntList dims;     ///< that are reduced; empty: all
  bool keepdim = false;     ///< as dimensions of 1
  std::int64_t count = -1;  ///< what sums are divided by; -1: elements of each. Of a rank's part: those of the whole
  TESSERA_ATTRIBUTES(dims, keepdim, count)
};
/// Of `var`.
struct VarAttributes {
  tensor::IntList dims;         ///< that are reduced; empty: all
  bool keepdim = false;         ///< as dimensions of 1
  std::int64_t correction = 1;  ///< taken from the count that squares are divided by
  TESSERA_ATTRIBUTES(dims, keepdim, correction)
};
/// Of `norm`.
struct PNormAttributes {
  double p = 2;          ///< order: 0 counts what is not zero, inf is the greatest, -inf the least
  tensor::IntList dims;  ///< that are reduced; empty: all
  bool keepdim = false;  ///< as dimensions of 1
  TESSERA_ATTRIBUTES(p, dims, keepdim)
};
/// Of `argmax` and `argmin`.
struct ArgAttributes {
  std::int64_t dim = 0;  ///< that is searched
  bool keepdim = false;  ///< as a dimension of 1
  /// Which of the dimension are here; as made: all. Results count in the whole; of nothing they are its size.
  layout::IndexMap map = {};
  TESSERA_ATTRIBUTES(dim, keepdim, map)
};
/// Of `deviation`.
struct DeviationAttributes {
  tensor::IntList dims;  ///< over which the mean is taken; empty: all
  TESSERA_ATTRIBUTES(dims)
};
/// Of `cumsum`.
struct CumsumAttributes {
  std::int64_t dim = 0;     ///< along which it adds up
  bool is_reverse = false;  ///< from the end: what the gradient of the other does
  TESSERA_ATTRIBUTES(dim, is_reverse)
};
/// Of `histc`.
struct HistcAttributes {
  std::int64_t bins = 100;  ///< how many, of equal width
  double low = 0;           ///< where the first begins
  double high = 1;          ///< where the last ends, itself included
  TESSERA_ATTRIBUTES(bins, low, high)
};

/// Sum. Of integers and bool in i64, unless a dtype is asked for.
TESSERA_API Tensor sum(const Tensor& x, const tensor::IntList& dims = {}, bool keepdim = false,
                       std::optional<DType> dtype = std::nullopt);
/// Mean of floating or complex numbers.
TESSERA_API Tensor mean(const Tensor& x, const tensor::IntList& dims = {}, bool keepdim = false);
/// Product. Of integers and bool in i64.
TESSERA_API Tensor prod(const Tensor& x, const tensor::IntList& dims = {}, bool keepdim = false);
/// Greatest. The gradient is shared evenly among equals.
TESSERA_API Tensor amax(const Tensor& x, const tensor::IntList& dims = {}, bool keepdim = false);
/// Least. The gradient is shared evenly among equals.
TESSERA_API Tensor amin(const Tensor& x, const tensor::IntList& dims = {}, bool keepdim = false);
/// Whether one is not zero; bool.
TESSERA_API Tensor any(const Tensor& x, const tensor::IntList& dims = {}, bool keepdim = false);
/// Whether none is zero; bool.
TESSERA_API Tensor all(const Tensor& x, const tensor::IntList& dims = {}, bool keepdim = false);
/// Variance: squared deviations from the mean over count - correction.
TESSERA_API Tensor var(const Tensor& x, const tensor::IntList& dims = {}, std::int64_t correction = 1,
                       bool keepdim = false);
/// x less its mean over these dimensions; empty: all.
TESSERA_API Tensor deviation(const Tensor& x, const tensor::IntList& dims = {});
/// (sum of |x|^p)^(1/p); p of inf: greatest |x|, of -inf: least, of 0: how many are not zero.
TESSERA_API Tensor norm(const Tensor& x, double p = 2, const tensor::IntList& dims = {}, bool keepdim = false);
/// log(sum(exp(x))), without overflow on the way.
TESSERA_API Tensor logsumexp(const Tensor& x, const tensor::IntList& dims = {}, bool keepdim = false);
/// Index of the greatest along a dimension: the first of equals, the first nan if there is one; i64.
TESSERA_API Tensor argmax(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// Likewise among all elements, counted row by row.
TESSERA_API Tensor argmax(const Tensor& x);
/// Index of the least along a dimension: the first of equals, the first nan if there is one; i64.
TESSERA_API Tensor argmin(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// Likewise among all elements, counted row by row.
TESSERA_API Tensor argmin(const Tensor& x);
/// Sums of all elements up to each along a dimension. Of integers and bool in i64.
TESSERA_API Tensor cumsum(const Tensor& x, std::int64_t dim);
/// How many elements fall into each of `bins` equal parts of [low, high]; i64. Others, and nan, are not counted.
TESSERA_API Tensor histc(const Tensor& x, std::int64_t bins, double low, double high);

/// The sum over the dimensions along which `shape` was broadcast to x: what gradients of operators that broadcast use.
/// x itself when it has the shape.
TESSERA_API Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace tessera::ops
