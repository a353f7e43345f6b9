// Reductions over the values of several ranks. A deterministic reduction combines the values of an element in rank
// order, in an accumulator (f32 for f32 and 16-bit floats, f64 for f64, exact for integers), and rounds once at the
// end. The result does not depend on the size, chunking, algorithm, backend or number of threads. avg divides the
// accumulator by the number of ranks before the rounding (integers: toward zero). A premultiplied sum multiplies each
// value in the accumulator type before it adds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/base/dtype.h"
#include "tessera/base/export.h"
#include "tessera/base/reduction.h"

namespace tessera::comm {

/// A kind of reduction and its factor.
struct ReduceOp {
  Reduction kind = Reduction::kSum;  ///< kind of the reduction
  double factor = 1;                 ///< multiplier of kPremultiply
  /// Returns true if both are the same reduction.
  friend bool operator==(const ReduceOp&, const ReduceOp&) = default;
};

/// Returns true if values of this dtype can be reduced this way. Complex types support sum and avg. bool supports min,
/// max, prod and the bitwise kinds (use max in place of sum). f8 types support none.
TESSERA_API bool can_reduce(DType dtype, Reduction kind);

/// Reduces `count` elements of each of `inputs`, in their order, into each of `outputs`. An output may be one of the
/// inputs, at the same offset. Runs on the calling thread.
TESSERA_API void fold(DType dtype, const ReduceOp& reduction, std::span<const std::byte* const> inputs,
                      std::span<std::byte* const> outputs, std::int64_t count);

}  // namespace tessera::comm
