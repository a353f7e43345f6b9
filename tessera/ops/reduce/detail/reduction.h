// The common implementation of sum, mean, prod, amax, amin, any, all, var, norm and logsumexp.
//
// A reduction maps each element (identity, square, ...), folds the mapped values of each result (sum, prod, max, min),
// and finishes the folded value (divides by a count, takes a root, ...). Two-pass reductions first fold a center per
// result: the mean for var, the maximum for logsumexp.
//
//   by rows      the innermost index of the input is reduced: its runs fold to one number
//   by columns   the innermost index is kept: tiles of adjacent results fold elementwise
//
// The work is split into tiles of results and, if these are few, chunks of the reduced indices. The split depends only
// on sizes, so that results have the same bits for any number of threads. Within a chunk f32 is added in f32 by many
// accumulators; chunks are added in f64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/ops/detail/elements.h"
#include "tessera/ops/reduce/detail/fold_steps.h"
#include "tessera/ops/shape/detail/strided_loop.h"

namespace tessera::ops::detail {

/// Returns the least or greatest integer of a dtype; 0 if the dtype is not an integer.
std::int64_t integer_limit(DType dtype, bool is_lowest);

/// A reduction and its operands. A value that a kernel captures.
struct ReduceLoop {
  StridedLoop<2> kept;     // result, input
  StridedLoop<1> reduced;  // input
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  DType in = DType::kF32;
  DType out = DType::kF32;
  Compute compute = Compute::kF32;
  Fold fold = Fold::kSum;
  Map map = Map::kNone;
  Finish finish = Finish::kNone;
  double parameter = 0;  // kDivide: the divisor; kPower and kRoot: p; kVariance: the correction; kDiffers: the number
  bool by_columns = false;
  bool is_empty = false;  // has results, but no elements to reduce

  /// Computes the index spaces of `x` reduced over the marked dimensions into `out`, which lacks them (or has them with
  /// size 1).
  void set_operands(const Tensor& out_tensor, const Tensor& x, const std::vector<bool>& is_reduced);
  /// Runs the reduction on the threads of the rank.
  void run() const;
};

}  // namespace tessera::ops::detail
