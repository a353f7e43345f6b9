// Chunks of buffers and checks of arguments, for definitions of collectives.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/comm/operation.h"

namespace tessera::comm {

/// A chunk of a buffer, in elements.
struct BufferChunk {
  std::int64_t first = 0;  ///< first element
  std::int64_t count = 0;  ///< number of elements
};
/// Returns chunk `rank` of chunks with `counts` elements, or with `count` elements each if `counts` is empty.
TESSERA_API BufferChunk chunk_of(std::span<const std::int64_t> counts, std::int64_t count, int rank);
/// Returns the number of elements of all chunks.
TESSERA_API std::int64_t total_of(std::span<const std::int64_t> counts, std::int64_t count, int size);
/// Returns the number of elements of the largest chunk.
TESSERA_API std::int64_t max_of(std::span<const std::int64_t> counts, std::int64_t count);

/// Throws InvalidArgument if the count is negative or above 2^48.
TESSERA_API void check_count(const Operation& operation);
/// Throws InvalidArgument if the number of counts is not the group size, or a count is negative. The error shows
/// `name`. Accepts an empty list.
TESSERA_API void check_counts(const Operation& operation, std::span<const std::int64_t> counts, std::string_view name,
                              int size);
/// Throws InvalidArgument if the root is not a rank of the group.
TESSERA_API void check_root(const Operation& operation, int size);
/// Throws InvalidArgument if the dtype does not support the reduction.
TESSERA_API void check_reduction(const Operation& operation);

}  // namespace tessera::comm
