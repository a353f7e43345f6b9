// Values that a kernel rejects, such as an index out of range.
//
// The kernel writes the value and its bound to a pinned record of its stream, also in replays of a graph. Later waits
// for the device throw an error that names operator, value and bound, until Stream::reset_error clears it. If several
// values are rejected, the error names any one of them.
#pragma once

#include <cstdint>

#include "tessera/base/dtype.h"

namespace tessera::ops::cuda {

/// Requirement that a value violates.
enum class Rejected : std::uint8_t {
  kIndex,          ///< in [0, bound) along dimension `detail`
  kProbability,    ///< finite and at least 0; the value holds the bits of an f64
  kNoProbability,  ///< one of `bound` probabilities is positive
  kStart,          ///< at least 0; sequence `detail`
  kColumns,        ///< at least `value` columns of pages, has `bound`; sequence `detail`
  kPage,           ///< in [0, bound); sequence `detail`
};

/// Destination of the report of a kernel, passed by value.
struct Rejection {
  std::int64_t* record = nullptr;      // pinned: value, bound, detail, code; value and code are written last
  std::int64_t* has_report = nullptr;  // pinned, of the device
  std::int64_t op = 0;
};

/// Indices that a kernel reads and checks. Any integer dtype; an unsigned index above the greatest i64 is negative.
struct CheckedIndex {
  const void* from = nullptr;
  DType dtype = DType::kI64;
  std::int64_t size = 0;  // exclusive upper bound
  std::int64_t dim = 0;   // named in errors
  Rejection rejection;
};

}  // namespace tessera::ops::cuda
