// How many rows of a loop are worth giving to a thread.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera::ops::detail {

/// Rows of one piece of a loop: a function of their length alone, so that results never depend on threads.
inline std::int64_t rows_per_piece(std::int64_t length) {
  return std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(length, 1));
}

}  // namespace tessera::ops::detail
