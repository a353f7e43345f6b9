// How values of several ranks become one. Fixed order: element i is the left fold in rank order of the N values in an
// accumulator (f32 for f32 and 16-bit floats, f64 for f64, exact for integers), rounded once at the end, whatever the
// size, chunking, algorithm, transport or number of threads. avg divides the accumulator by N before that rounding
// (integers: towards zero); premultiplied sum multiplies each value in the accumulator type before it is added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tessera/base/dtype.h"
#include "tessera/base/export.h"

namespace tessera::comm {

/// What is done with values of the same place.
enum class ReduceKind : std::uint8_t {
  kSum,          ///< a + b
  kAvg,          ///< the sum over the number of ranks
  kMin,          ///< the least; nan if one is
  kMax,          ///< the greatest; nan if one is
  kProd,         ///< a * b
  kBitAnd,       ///< of integers and bool
  kBitOr,        ///< likewise
  kBitXor,       ///< likewise
  kPremultiply,  ///< the sum of factor * value
};

/// A reduction.
struct Reduction {
  ReduceKind kind = ReduceKind::kSum;  ///< what
  double factor = 1;                   ///< of kPremultiply
  /// The same reduction.
  friend bool operator==(const Reduction&, const Reduction&) = default;
};

/// "sum", "avg", ...
TESSERA_API std::string_view to_string(ReduceKind kind);
/// Whether values of this dtype can be reduced so. Complex: sum and avg. bool: min, max, prod and the bitwise ones
/// (sum is refused: say max). f8: none.
TESSERA_API bool can_reduce(DType dtype, ReduceKind kind);

/// Folds `count` elements of each of `inputs`, in their order, into every one of `outputs`. An output may be one of the
/// inputs, at the same place. Runs on the calling thread.
TESSERA_API void fold(DType dtype, const Reduction& reduction, std::span<const std::byte* const> inputs,
                      std::span<std::byte* const> outputs, std::int64_t count);

}  // namespace tessera::comm
