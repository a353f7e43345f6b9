// Moves elements between strided arrays of one dtype: what operators that rearrange elements and compute nothing are
// made of. Elements are bytes here, of 1, 2, 4, 8 or 16 each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/ops/shape/detail/strided_loop.h"

namespace tessera::ops::detail {

/// Copies `n` elements of `nbytes` each, steps in elements.
void copy_row(std::byte* to, std::int64_t to_step, const std::byte* from, std::int64_t from_step, std::size_t nbytes,
              std::int64_t n);
/// Sets `n` elements to the one at `value`.
void fill_row(std::byte* to, std::int64_t step, const std::byte* value, std::size_t nbytes, std::int64_t n);

/// A copy of a whole index space: array 0 of the loop is written, array 1 read.
struct ElementsCopy {
  StridedLoop<2> loop;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t nbytes = 4;  // of an element

  /// Runs on the threads of the rank.
  void run() const;
};

}  // namespace tessera::ops::detail
