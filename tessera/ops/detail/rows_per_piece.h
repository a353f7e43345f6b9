// The number of rows that one thread takes from a loop.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera::ops::detail {

/// Returns the rows of one chunk. They depend only on the row length, so that results do not depend on the number of
/// threads.
inline std::int64_t rows_per_piece(std::int64_t length) {
  return std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(length, 1));
}

}  // namespace tessera::ops::detail
