// The machine behind sum, mean, prod, amax, amin, any, all, var, norm and logsumexp.
//
// A reduction maps every element (as it is, its square, ...), folds the mapped values of each result (sum, prod, max,
// min) and finishes what comes out (divides by a count, takes a root, ...). Two-pass ones first fold a centre of each
// result: the mean for var, the maximum for logsumexp.
//
//   by rows      the innermost index of the input is reduced: runs of it fold to one number
//   by columns   it is kept: tiles of neighbouring results fold elementwise
//
// Work is cut into tiles of results and, where these are few, stretches of the reduced indices: by sizes alone, so that
// results have the same bits for any number of threads. Within a stretch f32 is added in f32 by many accumulators;
// stretches are added in f64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/ops/detail/elements.h"
#include "tessera/ops/shape/detail/strided_loop.h"

namespace tessera::ops::detail {

enum class Fold : std::uint8_t { kSum, kProd, kMax, kMin };
enum class Map : std::uint8_t { kNone, kAbs, kSquare, kPower, kNonZero, kSquaredDeviation, kExp };
enum class Finish : std::uint8_t { kNone, kDivide, kRoot, kVariance, kLogSumExp };

/// See the head of this file. A value that a kernel captures.
struct Reduction {
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
  double parameter = 0;  // kDivide: the divisor; kPower and kRoot: p; kVariance: the correction
  bool by_columns = false;
  bool is_empty = false;  // there are results, but nothing to fold

  /// Lays out the index spaces of `x` reduced over the marked dimensions into `out`, which lacks them (or has them
  /// as 1).
  void set_operands(const Tensor& out_tensor, const Tensor& x, const std::vector<bool>& is_reduced);
  /// Runs on the threads of the rank.
  void run() const;
};

}  // namespace tessera::ops::detail
