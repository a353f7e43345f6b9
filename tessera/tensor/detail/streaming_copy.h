// A copy that bypasses the caches, for data that exceeds the caches and is not read again soon. The target is not read
// from memory first, which makes a large copy almost twice as fast as that of libc.
#pragma once

#include <cstddef>

namespace tessera::tensor::detail {

/// Copies bytes that do not overlap. Small copies use memcpy.
void streaming_copy(void* to, const void* from, std::size_t nbytes);

}  // namespace tessera::tensor::detail
